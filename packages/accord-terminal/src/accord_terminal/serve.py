"""`accord serve`: an agent for clients on the network."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from socket import socket
from typing import Any, cast

import click

from accord.agent.agent import Agent
from accord.errors import AccordError, StartError
from accord.installed import install_command
from accord.program import load_program
from accord.remote.access import ConnectionLimits, RemoteRequest
from accord.remote.access_log import LogFormatter
from accord.remote.asgi import RemoteApp, asgi
from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, is_unix, passed_sockets
from accord.transports.command_line import find_program
from accord.transports.registry import DEFAULT_PATH, is_loopback, is_url
from accord_terminal.toolkit.agent_names import (
    SettingsError,
    command_by_name,
    is_object,
    object_command,
)
from accord_terminal.toolkit.options import (
    TOKEN_VARIABLE,
    budget_options,
    limited_command,
    limits_of,
    read_or_make_token,
    read_token,
)

PORT = 8765
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--chain",
    type=_FILE,
    metavar="FILE",
    help="Serve the chain of this file, as `accord chain --config FILE`; it is started for each "
    "connection.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option(
    "--path", default=DEFAULT_PATH, show_default=True, help="Path of the agent in the URL."
)
@click.option(
    "--unix",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Listen on a Unix socket for your processes only, without a token.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the token that clients need; created if it does not exist. "
    f"Default: the value of {TOKEN_VARIABLE}.",
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate chain, in PEM.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Private key of --tls-cert.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Name of this server in the URLs of clients. Repeatable.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Origin of web pages that may connect. Repeatable.",
)
@click.option(
    "--allow-mcp",
    multiple=True,
    metavar="WHAT",
    help="MCP servers that clients may name: stdio (commands), private (addresses of private "
    "networks), HOST[:PORT], or none. Repeatable. Default: all on this machine, else none.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=ConnectionLimits().connections,
    show_default=True,
    help="Connections at the same time.",
)
@click.option(
    "--max-starts",
    type=click.IntRange(1),
    default=ConnectionLimits().starts_per_minute,
    show_default=True,
    help="Connections opened in one minute; a command is started for each.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0),
    default=ConnectionLimits().idle_s,
    show_default=True,
    metavar="SECONDS",
    help="Close a connection after this time without a message and a running turn; 0: never.",
)
@click.option(
    "--ping-interval",
    "ping_interval_s",
    type=click.FloatRange(0),
    default=ConnectionLimits().ping_interval_s,
    show_default=True,
    metavar="SECONDS",
    help="Time between the pings that a WebSocket client must answer; 0: none. "
    "Shorter than the idle time of proxies.",
)
@click.option(
    "--drain",
    "drain_s",
    type=click.FloatRange(0),
    default=ServerOptions().drain_s,
    show_default=True,
    metavar="SECONDS",
    help="Time for running turns to end after SIGTERM or Ctrl-C.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on stderr: connections and requests, without their contents.",
)
@budget_options
@click.option(
    "--insecure", is_flag=True, help="Accept every client that can connect, without a token."
)
def command(
    agent: tuple[str, ...],
    chain: Path | None,
    host: str,
    port: int,
    path: str,
    unix: Path | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    allow_mcp: tuple[str, ...],
    max_connections: int,
    max_starts: int,
    idle_s: float,
    ping_interval_s: float,
    drain_s: float,
    log_format: str,
    budget: str | None,
    unmetered: tuple[str, ...],
    insecure: bool,
) -> int:
    """Serve an agent to clients, by WebSocket and HTTP.

    AGENT is a name from `accord agents`; or the command of an agent on stdin and stdout, after
    `--`; or MODULE:OBJECT, an `accord.Agent` or what `accord run` takes. A command is started for
    each connection. Without AGENT the bundled agent is served.

    Clients need a token: that of --token-file, that of ACCORD_TOKEN, or a new one, which is
    printed at the start. On a Unix socket (--unix, unix:PATH for clients) they need no token.
    Sockets that systemd passes replace --host, --port and --unix.

    On SIGTERM and Ctrl-C the server starts no more turns, disconnects each client without a
    running turn, and exits with status 0. A second signal ends it at once.
    """
    if chain is not None:
        if agent:
            raise click.UsageError("Expected an agent or --chain FILE, got both")
        agent = (sys.executable, "-m", "accord", "chain", "--config", str(chain.absolute()))
    if limits_of(budget, unmetered) is not None:
        agent = _limited(agent, budget or "", unmetered)
    if (tls_cert is None) and tls_key is not None:
        raise click.UsageError("--tls-key needs --tls-cert")
    if not path.startswith("/"):
        raise click.UsageError(f"--path: expected a path that begins with /, got {path!r}")
    try:
        passed = passed_sockets()
    except OSError as error:
        raise click.ClickException(f"Cannot use the sockets that were passed: {error}") from None
    # A name or an address that others can use: the default of --allow-mcp depends on it.
    bound = [address_of(opened)[0] for opened in passed if not is_unix(opened)] or [host]
    only_unix = all(map(is_unix, passed)) if passed else unix is not None
    token, made, is_new_file = None, None, False
    if token_file is not None and not insecure:
        token, is_new_file = read_or_make_token(token_file)
    elif not insecure:
        token = read_token(None)
    os.environ.pop(TOKEN_VARIABLE, None)  # what agents start does not get it
    if token is None and not insecure and not only_unix:
        token = made = secrets.token_urlsafe(32)
    if only_unix and not allow_mcp:
        allow_mcp = ("stdio", "private")  # clients are processes of the same user
    try:
        app = asgi(
            _agent(agent),
            token=token,
            authenticate=_refuse if token is None and not insecure else None,
            hosts=(*hosts, *bound),
            origins=origins,
            insecure=insecure,
            path=path,
            allow_mcp=[what for what in allow_mcp if what != "none"] if allow_mcp else None,
            limits=ConnectionLimits(
                connections=max_connections,
                per_principal=max_connections,
                starts_per_minute=max_starts,
                idle_s=idle_s,
                ping_interval_s=ping_interval_s,
            ),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    options = ServerOptions(
        host=host,
        port=port,
        unix=unix,
        passed=passed,
        tls_cert=tls_cert,
        tls_key=tls_key,
        drain_s=drain_s,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(as_json=log_format == "json"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)

    def listening(sockets: Sequence[socket]) -> None:
        lines: list[str] = []
        for opened in sockets:
            address, bound_port = address_of(opened)
            if bound_port is None:
                lines.append(f"Serving on unix:{address}")
                continue
            secure = "" if tls_cert is None else "s"
            shown = f"[{address}]" if ":" in address else address
            place = f"{shown}:{bound_port}{path}"
            lines.append(f"Serving on ws{secure}://{place} and http{secure}://{place}")
            if tls_cert is None and not is_loopback(address):
                lines.append(
                    "Warning: connections are not encrypted: use --tls-cert, or a proxy with TLS"
                )
        if is_new_file:
            lines.append(f"Wrote a new token to {token_file}")
        if made is not None:
            lines.append(f"Token (clients set {TOKEN_VARIABLE} or --token-file): {made}")
        if insecure:
            lines.append(
                "Warning: every client that can connect is accepted, without a token (--insecure)"
            )
        print("\n".join(lines), file=sys.stderr, flush=True)

    try:
        asyncio.run(_serve(app, options, listening))
    except OSError as error:
        where = unix if unix is not None else f"{host}:{port}"
        raise click.ClickException(f"Cannot serve on {where}: {error}") from None
    return 0


def _limited(agent: tuple[str, ...], budget: str, unmetered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a chain that keeps a command within limits."""
    words = list(object_command(agent[0])) if _names_object(agent) else _agent(agent)
    return limited_command(cast("list[str]", words), budget, unmetered)


def _refuse(_request: RemoteRequest) -> None:
    """Reject every login: the clients of a Unix socket need none."""


async def _serve(
    app: RemoteApp, options: ServerOptions, listening: Callable[[Sequence[socket]], None]
) -> None:
    stop = Stop()
    loop = asyncio.get_running_loop()

    def request() -> None:
        turns = app.running_turns
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


def _agent(words: tuple[str, ...]) -> Any:
    """Return what to serve: a class, or a command."""
    if not words:
        return [sys.executable, "-m", "accord", "agent"]
    target = words[0]
    if len(words) == 1:
        try:
            if (by_name := command_by_name(target)) is not None:
                return by_name
        except SettingsError as error:
            raise click.UsageError(str(error)) from None
    if is_url(target):
        raise click.UsageError(
            f"{target} is the URL of an agent, which is served already;"
            f" to pass it on: accord serve -- accord bridge {target}"
        )
    if not _names_object(words):
        try:
            find_program(target, None, None)
        except StartError as error:
            raise click.UsageError(
                f"Expected the command of an agent, its name, or MODULE:OBJECT. {error}"
            ) from None
        return list(words)
    return _object(target)


def _names_object(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and is_object(words[0])


def _object(target: str) -> Any:
    """Return an `accord.Agent`, or the agent that runs an object of a framework."""
    load = load_program("object", "accord_bridges")
    if load is None:
        return _agent_class(target)
    try:
        return load(target)
    except AccordError as error:
        raise click.UsageError(str(error)) from None


def _agent_class(target: str) -> Any:
    """Return an `accord.Agent` without the package of the bridges."""
    module, _, name = target.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"{target} cannot be imported: {error}") from None
    if not (isinstance(found, Agent) or (isinstance(found, type) and issubclass(found, Agent))):
        raise click.UsageError(
            f"{target}: expected an accord.Agent, got {found!r}; objects of frameworks need more"
            f" packages: {install_command('bridges')}"
        )
    return found
