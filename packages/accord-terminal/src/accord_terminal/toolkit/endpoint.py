"""Where a command listens and who may connect: the options of `accord serve` and its like."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from socket import socket
from typing import Any, TypeVar

import click
from msgspec import Struct

from accord.remote.access import RemoteRequest
from accord.remote.access_log import LogFormatter
from accord.remote.server import ServedApp, ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, is_unix, passed_sockets
from accord.transports.registry import is_loopback
from accord_terminal.toolkit.options import TOKEN_VARIABLE, read_or_make_token, read_token

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def endpoint_options(port: int, only: Collection[str] | None = None) -> Callable[[F], F]:
    """Add the options of an `Endpoint`, which the command gets as keyword arguments.

    `only` names the fields that have an option; without it all of them have one.
    """
    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 selects a free port.",
        ),
        click.option(
            "--unix",
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="Listen on a Unix socket for your processes only, without a token.",
        ),
        click.option(
            "--token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="File with the token that clients need; created if it does not exist. "
            f"Default: the value of {TOKEN_VARIABLE}.",
        ),
        click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate chain, in PEM."),
        click.option("--tls-key", type=_FILE, metavar="FILE", help="Private key of --tls-cert."),
        click.option(
            "--allow-host",
            "hosts",
            multiple=True,
            metavar="HOST",
            help="Name of this server in the URLs of clients. Repeatable.",
        ),
        click.option(
            "--allow-origin",
            "origins",
            multiple=True,
            metavar="ORIGIN",
            help="Origin of web pages that may connect. Repeatable.",
        ),
        click.option(
            "--drain",
            "drain_s",
            type=click.FloatRange(0),
            default=ServerOptions().drain_s,
            show_default=True,
            metavar="SECONDS",
            help="Time for running turns to end after SIGTERM or Ctrl-C.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Format of the log on stderr: connections and requests, without their contents.",
        ),
        click.option(
            "--insecure",
            is_flag=True,
            help="Accept every client that can connect, without a token.",
        ),
    )

    fields = (
        *("host", "port", "unix", "token_file", "tls_cert", "tls_key"),
        *("hosts", "origins", "drain_s", "log_format", "insecure"),
    )

    def add(command: F) -> F:
        for name, option in reversed([*zip(fields, options, strict=True)]):
            if only is None or name in only:
                command = option(command)
        return command

    return add


class Endpoint(Struct, kw_only=True):
    """The values of the options; without `login` the application has its own, and no token."""

    host: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    hosts: tuple[str, ...]
    log_format: str
    unix: Path | None = None
    token_file: Path | None = None
    origins: tuple[str, ...] = ()
    drain_s: float = ServerOptions().drain_s
    insecure: bool = False
    login: bool = True
    token: str | None = None
    made_token: bool = False  # it was not given, and has to be shown
    only_unix: bool = False
    _is_new_file: bool = False
    _passed: Sequence[socket] = ()

    def __post_init__(self) -> None:
        if self.tls_cert is None and self.tls_key is not None:
            raise click.UsageError("--tls-key needs --tls-cert")
        try:
            self._passed = passed_sockets()
        except OSError as error:
            raise click.ClickException(
                f"Cannot use the sockets that were passed: {error}"
            ) from None
        self.only_unix = all(map(is_unix, self._passed)) if self._passed else self.unix is not None
        if not self.login:
            return
        if self.token_file is not None and not self.insecure:
            self.token, self._is_new_file = read_or_make_token(self.token_file)
        elif not self.insecure:
            self.token = read_token(None)
        os.environ.pop(TOKEN_VARIABLE, None)  # what agents start does not get it
        if self.token is None and not self.insecure and not self.only_unix:
            self.token, self.made_token = secrets.token_urlsafe(32), True

    def access(self) -> dict[str, Any]:
        """Return who may connect: keyword arguments of `accord.asgi` and of `Access`."""
        # A name or an address that others can use: the default of --allow-mcp depends on it.
        bound = [address_of(one)[0] for one in self._passed if not is_unix(one)] or [self.host]
        return {
            "token": self.token,
            "authenticate": _refuse if self.token is None and not self.insecure else None,
            "hosts": (*self.hosts, *bound),
            "origins": self.origins,
            "insecure": self.insecure,
        }

    def serve(
        self,
        app: ServedApp,
        running_turns: Callable[[], int],
        announce: Callable[[str], Sequence[str]],
        token_for: str = f"clients set {TOKEN_VARIABLE} or --token-file",
    ) -> None:
        """Serve an application until a signal; `announce` makes the lines for an address.

        An address is `unix:PATH`, or `http://HOST:PORT`, or the same with `https`.
        """
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LogFormatter(as_json=self.log_format == "json"))
        logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)

        def listening(sockets: Sequence[socket]) -> None:
            lines: list[str] = []
            for opened in sockets:
                address, bound_port = address_of(opened)
                if bound_port is None:
                    lines += announce(f"unix:{address}")
                    continue
                shown = f"[{address}]" if ":" in address else address
                secure = "" if self.tls_cert is None else "s"
                lines += announce(f"http{secure}://{shown}:{bound_port}")
                if self.tls_cert is None and not is_loopback(address):
                    lines.append(
                        "Warning: connections are not encrypted: use --tls-cert, or a proxy"
                        " with TLS"
                    )
            if self._is_new_file:
                lines.append(f"Wrote a new token to {self.token_file}")
            if self.made_token:
                lines.append(f"Token ({token_for}): {self.token}")
            if self.insecure:
                lines.append(
                    "Warning: every client that can connect is accepted, without a token"
                    " (--insecure)"
                )
            print("\n".join(lines), file=sys.stderr, flush=True)

        options = ServerOptions(
            host=self.host,
            port=self.port,
            unix=self.unix,
            passed=self._passed,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            drain_s=self.drain_s,
        )
        try:
            asyncio.run(_serve(app, running_turns, options, listening))
        except OSError as error:
            where = self.unix if self.unix is not None else f"{self.host}:{self.port}"
            raise click.ClickException(f"Cannot serve on {where}: {error}") from None


def _refuse(_request: RemoteRequest) -> None:
    """Reject every login: the clients of a Unix socket need none."""


async def _serve(
    app: ServedApp,
    running_turns: Callable[[], int],
    options: ServerOptions,
    listening: Callable[[Sequence[socket]], None],
) -> None:
    stop = Stop()
    loop = asyncio.get_running_loop()

    def request() -> None:
        turns = running_turns()
        if not stop.requested.is_set() and turns:
            print(
                f"Waiting up to {options.drain_s:g} s for running turns ({turns})."
                " Press Ctrl-C again, or send a second signal, to end them now.",
                file=sys.stderr,
                flush=True,
            )
        stop.request()

    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(request))
        else:
            loop.add_signal_handler(number, request)
    await run_server(app, options, listening, stop)
    if stop.at_once.is_set():
        # What still runs would be waited for; the agents' processes end with this one.
        logging.shutdown()
        os._exit(1)
