"""Runs an ASGI application on sockets of this machine.

`run_server` does it until it is stopped. `AcceptGate` bounds what clients cost before and without a
login: sockets, slow heads, many refusals.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hypercorn.config import Config
from msgspec import Struct, field

from accord.remote.access import UNIX_PEER, AsgiApp, Receive, Scope, Send, path_of
from accord.remote.listener import HTTP2_STREAMS, listen
from accord.remote.sockets import is_unix, open_tcp, open_unix, remove_unix
from accord.transports.registry import REMOTE_FRAME_BYTES

# Bounds what clients cost before and without a login: sockets, slow heads, many refusals.

if sys.platform != "win32":
    import resource


log: logging.Logger = logging.getLogger("accord.remote")

_Name: TypeAlias = tuple[str, int]  # host and port of the other end

_REFUSED = frozenset({401, 403, 421})
_WINDOW_S = 10.0  # in which the requests that a client takes back are counted
_FREE_FDS = 4  # of all file descriptors, one in so many is not for sockets


class SocketLimits(Struct, frozen=True, kw_only=True):
    """The bounds on network connections, whatever is sent on them (T9, T12, T13)."""

    sockets: int = 16_384
    per_address: int = 8_192
    without_request: int = 512  # beyond these the oldest is closed
    head_s: float = 10.0  # for the first request to arrive
    refusals: int = 100  # of one HTTP/2 connection
    requests: int = 2000  # of one connection at the same time
    resets: int = 200  # requests of one connection that the client takes back within 10 s


class AcceptGate:
    """Accepts connections within limits, and closes those that exceed one.

    `guard` makes a listening socket count; `app` counts the requests. A connection without a
    request is the cheapest attack: these are closed after `head_s`, and the oldest of them if
    there are too many, so that other clients still get in.
    """

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._most = min(limits.sockets, _most_sockets())
        self._open: dict[_Name, _Accepted] = {}
        self._new: dict[_Name, _Accepted] = {}  # without a request, the oldest first
        self._per_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._full = False

    def guard(self, listening: socket.socket) -> socket.socket:
        """Return a listening socket in place of one of TCP."""
        if listening.family not in (socket.AF_INET, socket.AF_INET6):
            return listening
        guarded = _Guarded(fileno=listening.detach())
        guarded.setblocking(False)
        guarded.gate = self
        return guarded

    def app(self, app: AsgiApp) -> AsgiApp:
        """Return an application that counts the requests of each connection."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client")
            accepted = None if client is None else self._open.get((client[0], client[1]))
            if accepted is None:
                await app(scope, receive, send)
                return
            self._new.pop(accepted.name, None)
            if accepted.running >= self._limits.requests:
                self._close(accepted, "it has too many requests")
                return
            accepted.running += 1
            try:
                if scope["type"] == "http":
                    request = _Request(self, accepted, scope, receive, send)
                    await app(scope, request.receive, request.send)
                else:
                    await app(scope, receive, send)
            finally:
                accepted.running -= 1

        return counted

    def aclose(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # For accepted connections.

    def admits(self, address: Any) -> bool:
        """Return whether a new connection may stay; make place for it."""
        if len(self._new) >= min(self._limits.without_request, self._most):
            self._close_oldest()
        full = len(self._open) >= self._most
        if full and self._new:
            self._close_oldest()
            full = False
        if full or self._per_address[address[0]] >= self._limits.per_address:
            if not self._full:
                self._full = True
                log.warning("! there are %d connections, the limit", len(self._open))
            return False
        return True

    def add(self, accepted: _Accepted) -> None:
        """Count a connection."""
        loop = asyncio.get_running_loop()
        accepted.until = loop.time() + self._limits.head_s
        self._open[accepted.name] = self._new[accepted.name] = accepted
        self._per_address[accepted.name[0]] += 1
        if self._timer is None:
            self._timer = loop.call_at(accepted.until, self._check)

    def remove(self, accepted: _Accepted) -> None:
        """Stop counting a connection."""
        if self._open.get(accepted.name) is not accepted:
            return
        del self._open[accepted.name]
        self._new.pop(accepted.name, None)
        self._per_address[accepted.name[0]] -= 1
        if not self._per_address[accepted.name[0]]:
            del self._per_address[accepted.name[0]]
        self._full = self._full and len(self._open) >= self._most // 2

    def count_refusal(self, accepted: _Accepted) -> None:
        """Count a request that was refused for its login or its origin."""
        accepted.refused += 1
        if accepted.refused >= self._limits.refusals:
            self._close(accepted, "too many of its requests were refused")

    def count_reset(self, accepted: _Accepted) -> None:
        """Count a request that the client has taken back (T13)."""
        now = asyncio.get_running_loop().time()
        if now - accepted.counted_since > _WINDOW_S:
            accepted.counted_since, accepted.resets = now, 0
        accepted.resets += 1
        if accepted.resets >= self._limits.resets:
            self._close(accepted, "it takes back too many requests")

    def _check(self) -> None:
        """Close the connections without a request in time."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        for accepted in list(self._new.values()):
            if accepted.until > now:
                self._timer = loop.call_at(accepted.until, self._check)
                return
            self._close(accepted, "no request arrived in time")

    def _close_oldest(self) -> None:
        self._close(next(iter(self._new.values())), "too many wait for a request")

    def _close(self, accepted: _Accepted, why: str) -> None:
        log.debug("! a connection of %s is closed: %s", accepted.name[0], why)
        self.remove(accepted)
        accepted.end()


class _Guarded(socket.socket):
    """A listening socket; what it accepts is counted by its gate.

    Event loops on selectors call `accept`; that of Windows does not, so nothing is counted there.
    """

    gate: AcceptGate

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            if self.gate.admits(address):
                accepted = _Accepted(self.family, self.type, self.proto, fileno=connection.detach())
                accepted.gate, accepted.name = self.gate, (address[0], address[1])
                self.gate.add(accepted)
                return accepted, address
            connection.close()


class _Accepted(socket.socket):
    """An accepted connection."""

    gate: AcceptGate
    name: _Name
    until: float = 0.0  # its first request must arrive before
    running: int = 0  # requests
    refused: int = 0
    resets: int = 0
    counted_since: float = 0.0

    def end(self) -> None:
        """End both directions; the server of the connection then closes it."""
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.gate.remove(self)
        super().close()


class _Request:
    """The ASGI callables of one request, which are counted."""

    def __init__(
        self, gate: AcceptGate, accepted: _Accepted, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._gate = gate
        self._accepted = accepted
        self._is_http2 = scope.get("http_version") == "2"
        self._is_open_to_all = path_of(scope) in ("/health", "/ready")
        self._receive = receive
        self._send = send
        self._complete = False

    async def receive(self) -> Any:
        event = await self._receive()
        if event["type"] == "http.disconnect" and not self._complete:
            self._gate.count_reset(self._accepted)
            self._complete = True
        return event

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            if not self._is_http2 and (event["status"] >= 400 or self._is_open_to_all):
                event = {**event, "headers": [*event["headers"], (b"connection", b"close")]}
            elif event["status"] in _REFUSED:
                self._gate.count_refusal(self._accepted)
        elif event["type"] == "http.response.body" and not event.get("more_body", False):
            self._complete = True
        await self._send(event)


def _most_sockets() -> int:
    """Return how many sockets the process may have, without its other files."""
    if sys.platform == "win32":
        return 1 << 20
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return soft - soft // _FREE_FDS


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
