"""Accepts connections: WebSocket connections are served here, all others by hypercorn."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hypercorn.asyncio.tcp_server import TCPServer as _TCPServer
from hypercorn.asyncio.worker_context import WorkerContext as _WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.utils import wrap_app as _wrap_app  # pyright: ignore[reportUnknownVariableType]

from accord.connection.limits import FloodLog
from accord.remote.asgi_socket import DIRECT_SOCKET
from accord.remote.asgi_types import AsgiApp, Event, Scope
from accord.remote.http2_streams import adapt_hypercorn, goaway
from accord.remote.listener_socket import SocketHandshake

log: logging.Logger = logging.getLogger("accord.remote")

HEAD_S = 10.0  # for the first request of a connection, without its body (R-WS-15)
HEAD_BYTES = 64 * 1024

_TLS_HANDSHAKE = 0x16  # the first byte
_HEAD_END = b"\r\n\r\n"
_UPGRADE = re.compile(rb"\r\nupgrade:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)


async def listen(
    app: AsgiApp,
    config: Config,
    sockets: Sequence[socket.socket],
    *,
    started: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Serve an application on listening sockets until `stop` is set.

    A connection that begins with a WebSocket handshake does not reach hypercorn: the scope that
    the application gets has a `SocketHandshake` as its extension `DIRECT_SOCKET`, to be used
    instead of `receive` and `send`. All other connections are served by hypercorn. The application
    gets no lifespan events.
    """
    adapt_hypercorn()
    listener = _Listener(app, config)
    servers = [await listener.listen_on(opened) for opened in sockets]
    try:
        started()
        await stop.wait()
    finally:
        for server in servers:
            server.close()
        await listener.aclose()


class _Listener:
    """Serves the connections of all sockets."""

    def __init__(self, app: AsgiApp, config: Config) -> None:
        self._app = app
        self._config = config
        self._context = _WorkerContext(None)
        self._wrapped: Any = cast("Any", _wrap_app)(app, config.wsgi_max_body_size, "asgi")
        self._tls = config.create_ssl_context()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._flood_log = FloodLog(log)
        self.opening: set[_FirstRequest] = set()

    async def listen_on(self, opened: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        tls_time_s = self._config.ssl_handshake_timeout if self._tls is not None else None
        return await loop.create_server(
            lambda: _FirstRequest(self),
            sock=opened,
            ssl=self._tls,
            ssl_handshake_timeout=tls_time_s,
            backlog=self._config.backlog,
        )

    def serve_websocket(self, transport: asyncio.Transport, head: bytes, rest: bytes) -> None:
        """Serve a connection whose first request asks for WebSocket."""
        handshake = SocketHandshake(transport)
        scope = handshake.receive(head, rest)
        if scope is not None:
            self._run(self._serve_handshake(scope, handshake))

    async def _serve_handshake(self, scope: Scope, handshake: SocketHandshake) -> None:
        try:
            await self._app(scope, _unusable, _unusable)
        finally:
            handshake.release()

    def serve_http(self, transport: asyncio.Transport, data: bytes) -> None:
        """Serve any other connection, of which this data has arrived."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)
        config, context = self._config, self._context
        server = _HttpServer(self._wrapped, loop, config, context, {}, reader, writer)
        server.flood_log = self._flood_log
        self._run(server.run())

    def _run(self, serving: Awaitable[object]) -> None:
        task: asyncio.Future[object] = asyncio.ensure_future(serving)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("! a connection failed", exc_info=error)
            place = _place_of(error)
            self._flood_log.log(logging.ERROR, "! a connection failed: %s", place, kind=place)

    async def aclose(self) -> None:
        """End all connections, within `graceful_timeout` seconds if they do not end before."""
        for first in list(self.opening):
            first.abort()
        await self._context.terminated.set()
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=self._config.graceful_timeout)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)


class _HttpServer(_TCPServer):
    """Serves one connection; it ends when the client has left, also while it is idle.

    It also ends if hypercorn or its libraries fail on what the client has sent, such as too many
    streams: the client gets the error of HTTP/2, and the log at most a line a minute for each
    address, without what was sent (T13, R-SEC-10).
    """

    flood_log: FloodLog

    async def _read_data(self) -> None:
        try:
            await super()._read_data()
        except Exception as exc:  # noqa: BLE001  # anything, caused by the bytes of the client
            self._log(exc)
            if last := goaway(self.protocol, exc):
                await self.protocol_send(RawData(last))
            await self.protocol.handle(Closed())
        await self.idle_task.stop()

    def _log(self, error: Exception) -> None:
        log.debug("! a connection is closed", exc_info=error)
        peer: Any = self.writer.get_extra_info("peername")
        address = cast("str", peer[0]) if isinstance(peer, tuple) else "unix"
        place = _place_of(error)
        text = "! a connection of %s is closed: its messages are invalid (%s)"
        self.flood_log.log(logging.WARNING, text, address, place, kind=address)


def _place_of(error: BaseException) -> str:
    """Return the type of an error and the line that raised it; its text may be of the client."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    name = type(error).__name__
    if not (frames := traceback.extract_tb(error.__traceback__)):
        return name
    return f"{name} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"


async def _unusable(_event: Event | None = None) -> Any:
    raise RuntimeError(f"Use the extension {DIRECT_SOCKET!r} of the scope")


class _FirstRequest(asyncio.Protocol):
    """Receives the head of the first request, which decides who serves the connection."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, self.abort)
        self._listener.opening.add(self)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._data[0] == _TLS_HANDSHAKE:
            # A client of TLS at a port without it, or within TLS: it shows this as an error.
            self._forget()
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            self._transport.close()
            return
        end = self._data.find(_HEAD_END)
        if end < 0 and len(self._data) <= HEAD_BYTES:
            return
        self._forget()
        head, rest = self._data[: end + 4], self._data[end + 4 :]
        if end >= 0 and head.startswith(b"GET ") and _UPGRADE.search(head):
            self._listener.serve_websocket(self._transport, head, rest)
        else:
            self._listener.serve_http(self._transport, self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()

    def abort(self) -> None:
        """Close the connection without an answer."""
        self._forget()
        self._transport.abort()

    def _forget(self) -> None:
        self._timer.cancel()
        self._listener.opening.discard(self)
