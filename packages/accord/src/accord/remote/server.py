"""Runs an ASGI application on sockets of this machine."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from hypercorn.config import Config
from msgspec import Struct, field

from accord.remote.accept_gate import AcceptGate, SocketLimits
from accord.remote.asgi_types import UNIX_PEER, Receive, Scope, Send
from accord.remote.http2_streams import HTTP2_STREAMS
from accord.remote.listener import listen
from accord.remote.sockets import is_unix, open_tcp, open_unix, remove_unix
from accord.transports.registry import REMOTE_FRAME_BYTES

RESPONSES_S = 3.0  # for responses to end after the agents
CLOSE_S = 0.5  # for the connections themselves


class ServedApp(Protocol):
    """An ASGI application that ends its connections when the server stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def drain(self, timeout_s: float) -> None:
        """Let running work end for at most `timeout_s` seconds, then end all connections."""
        ...

    async def disconnect(self, timeout_s: float) -> None:
        """End all connections now."""
        ...


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Where a server listens, and its certificate. Port 0 is a free port.

    `unix` is the path of a socket for this user, instead of `host` and `port`. `passed` are
    listening sockets of the parent process, instead of both.
    """

    host: str = "127.0.0.1"
    port: int = 0
    unix: Path | None = None
    passed: Sequence[socket.socket] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    drain_s: float = 30.0  # for running turns, after `stop`
    socket_limits: SocketLimits = SocketLimits()


class Stop(Struct, frozen=True, eq=False):
    """Ends a server: after its running turns, or at once."""

    requested: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)

    def request(self) -> None:
        """Request the end; the second request is to end at once."""
        if self.requested.is_set():
            self.at_once.set()
        self.requested.set()


async def run_server(
    app: ServedApp,
    options: ServerOptions,
    listening: Callable[[Sequence[socket.socket]], None],
    stop: Stop,
) -> None:
    """Serve an application until `stop` is requested, then let running turns end.

    `listening` is called with the sockets once the server accepts connections. Raises `OSError`
    if an address cannot be used.
    """
    config = _config(options)
    gate = AcceptGate(options.socket_limits)
    sockets = list(map(gate.guard, _open_sockets(options)))
    created = options.unix is not None and not options.passed
    has_unix = any(map(is_unix, sockets))
    if has_unix and not isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
        raise OSError("A Unix socket needs the selector event loop of asyncio")
    started, drained = asyncio.Event(), asyncio.Event()
    requests = _Requests()

    async def adapted(scope: Scope, receive: Receive, send: Send) -> None:
        # The socket has accepted this user only; the library gives TCP clients an address.
        if has_unix and scope.get("client") is None:
            scope["extensions"] = {**scope.get("extensions", {}), UNIX_PEER: {"uid": os.geteuid()}}
        with requests.one():
            await counted(scope, receive, send)

    counted = gate.app(app)
    serving = asyncio.ensure_future(
        listen(adapted, config, sockets, started=started.set, stop=drained)
    )
    try:
        await _first(started, serving)
        listening(sockets)
        await _first(stop.requested, serving)
        await _unless(stop.at_once, app.drain(options.drain_s))
        if stop.at_once.is_set():
            await app.disconnect(timeout_s=1.0)
    finally:
        if created:
            remove_unix(sockets[0])
        if not stop.at_once.is_set():
            await requests.wait_until_none(RESPONSES_S)
        drained.set()
        await _end(serving, 3 * CLOSE_S)
        for opened in sockets:
            opened.close()
        gate.aclose()


class _Requests:
    """Counts the requests that are being served."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Generator[None]:
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def wait_until_none(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._none.wait()


def _open_sockets(options: ServerOptions) -> list[socket.socket]:
    if options.passed:
        sockets = list(options.passed)
    elif options.unix is not None:
        sockets = [open_unix(options.unix)]
    else:
        sockets = [open_tcp(options.host, options.port)]
    for opened in sockets:
        opened.setblocking(False)
    return sockets


async def _first(event: asyncio.Event, serving: asyncio.Future[None]) -> None:
    """Wait for an event; raise the error of a server that ends before it."""
    await _unless(event, asyncio.shield(serving))
    if serving.done():
        serving.result()
        raise OSError("The server has stopped")


async def _unless(event: asyncio.Event, work: Awaitable[None]) -> None:
    """Wait for work; cancel it when the event is set."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting, working), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    if not working.cancelled():
        working.result()


async def _end(serving: asyncio.Future[None], timeout_s: float) -> None:
    """Wait for the server to end, or cancel it: connections may stay open."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(_ignore_cancelled)
    await asyncio.wait([serving], timeout=timeout_s)
    serving.cancel()
    await asyncio.wait([serving])
    await asyncio.sleep(0)  # for the callbacks of what was cancelled
    loop.set_exception_handler(before)
    if not serving.cancelled():
        serving.result()


def _ignore_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Do not log the connections that the library cancels, its pings among them."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _check_certificate(cert: Path, key: Path | None) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except ssl.SSLError as exc:
        where = f"{cert}" if key is None else f"{cert} and {key}"
        raise OSError(
            f"Expected a certificate and its key without a password, in PEM, in {where}"
        ) from exc


def _config(options: ServerOptions) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.graceful_timeout = CLOSE_S
    config.h2_max_concurrent_streams = HTTP2_STREAMS
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = 1 << 30  # the gate counts what costs something
    config.ssl_handshake_timeout = 10
    config.websocket_max_message_size = REMOTE_FRAME_BYTES
    config.websocket_ping_interval = 20  # R-WS-14
    if options.tls_cert is not None:
        _check_certificate(options.tls_cert, options.tls_key)
        config.certfile = str(options.tls_cert)
        config.keyfile = str(options.tls_key or options.tls_cert)
    return config
