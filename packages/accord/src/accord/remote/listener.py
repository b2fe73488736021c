"""Accepts connections: WebSocket connections are served here, all others by hypercorn.

`listen` reads the first request of a connection. `SocketHandshake` accepts a WebSocket without an
ASGI server; `adapt_hypercorn` changes how hypercorn serves the streams of HTTP/2: memory, number,
ends.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import hypercorn.protocol as _protocol
import hypercorn.protocol.h2 as _h2
import priority
from h2.errors import ErrorCodes
from h2.exceptions import H2Error, ProtocolError
from hypercorn.asyncio.tcp_server import TCPServer as _TCPServer
from hypercorn.asyncio.worker_context import WorkerContext as _WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, RawData
from hypercorn.utils import wrap_app as _wrap_app  # pyright: ignore[reportUnknownVariableType]
from priority.priority import PriorityTree, TooManyStreamsError
from websockets.http11 import Request, Response
from websockets.protocol import CONNECTING
from websockets.server import ServerProtocol

from accord.connection.limits import FloodLog
from accord.errors import ConnectionLost
from accord.remote import asgi_socket
from accord.remote.access import (
    POLICY_VIOLATION,
    AsgiApp,
    ConnectionLimits,
    Event,
    NetworkTransport,
    Refusal,
    Scope,
)
from accord.remote.asgi_socket import DIRECT_SOCKET
from accord.transports.registry import REMOTE_FRAME_BYTES
from accord.transports.websocket_base import FrameConnection, SocketTransport

# What Accord changes in how hypercorn serves the streams of HTTP/2: memory, number, their ends.
#
# `adapt_hypercorn` changes hypercorn in this process, and `goaway` ends a connection whose client
# sends what hypercorn cannot handle.

HTTP2_STREAMS = 1024  # of a connection at the same time (R-HTTP-39)


class _StreamBuffer(_h2.StreamBuffer):
    """The bytes of a response that wait for the client; the application waits while it is full.

    hypercorn 0.18 lets the application continue as soon as less than a frame was removed, also if
    nothing was removed because the client reads nothing. The buffer then grows with each message.
    """

    async def pop(self, max_length: int) -> bytes:
        length = min(len(self.buffer), max_length)
        data = bytes(self.buffer[:length])
        del self.buffer[:length]
        if len(self.buffer) < _h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


class _PriorityTree(PriorityTree):
    """The streams of a connection, in the order in which they are sent.

    By default it fails at the 1,000th, and hypercorn 0.18 then ends the connection. Streams that
    others depend on also count.
    """

    def __init__(self) -> None:
        super().__init__(maximum_streams=2 * HTTP2_STREAMS)

    def remove_stream(self, stream_id: int) -> None:
        """Remove a stream; priority 2.0 sorts all others slowly, which adds up to seconds."""
        stream = self._streams.get(stream_id)
        if stream is None or (parent := stream.parent) is None:
            super().remove_stream(stream_id)
            return
        del self._streams[stream_id]
        parent.children.remove(stream)
        left = [item for item in parent.child_queue if item[1] is not stream]
        left.sort(key=lambda item: (item[0], item[1].stream_id))  # a sorted list is a heap
        parent.child_queue = left
        for child in stream.children:
            parent.add_child(child)


class _Streams(dict[int, Any]):
    """The open streams of a connection; one that has ended ignores the rest of its request.

    hypercorn 0.18 ends the whole connection if the body of a request arrives after its response,
    such as a refusal.
    """

    def __missing__(self, stream_id: int) -> _EndedStream:
        return _EndedStream()


class _EndedStream:
    async def handle(self, event: object) -> None:
        pass


class _H2Protocol(_h2.H2Protocol):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.streams = _Streams()


def adapt_hypercorn() -> None:
    """Replace them in hypercorn, in this process (T11, R-HTTP-39)."""
    _h2.StreamBuffer = _StreamBuffer
    protocol: Any = _protocol
    protocol.H2Protocol = _H2Protocol
    changed = {**vars(priority), "PriorityTree": _PriorityTree}
    module: Any = _h2
    module.priority = SimpleNamespace(**changed)


def goaway(wrapper: _protocol.ProtocolWrapper, error: Exception) -> bytes:
    """Return the GOAWAY frame that tells the client why its connection ends (RFC 9113, 7).

    It is empty for HTTP/1.1, and after an error of h2, which has sent its own. A request that
    hypercorn could not start is dropped: it cannot be told that the connection is closed.
    """
    protocol = wrapper.protocol
    if not isinstance(protocol, _h2.H2Protocol):
        return b""
    for number, stream in list(protocol.streams.items()):
        if not hasattr(stream, "scope") or not hasattr(stream, "app_put"):
            del protocol.streams[number]
    if isinstance(error, H2Error):
        return b""
    floods = isinstance(error, TooManyStreamsError)
    code = ErrorCodes.ENHANCE_YOUR_CALM if floods else ErrorCodes.PROTOCOL_ERROR
    try:
        protocol.connection.close_connection(code)
    except ProtocolError:  # the client has ended it
        return b""
    return protocol.connection.data_to_send()


# WebSocket connections that this package accepts itself, without an ASGI server.

# The library logs messages at the level DEBUG (R-SEC-10).
websocket_log: logging.Logger = logging.getLogger("accord.remote.websocket")
websocket_log.setLevel(logging.WARNING)

REFUSE_S = 2.0  # for a client to read why it is refused


class SocketHandshake:
    """A client that wants to open a WebSocket connection: call `accept` or `refuse`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._protocol = ServerProtocol(max_size=REMOTE_FRAME_BYTES, logger=websocket_log)
        self._connection = _Connection(self._protocol)
        self._response: Response | None = None
        self.transport: _ServerTransport = _ServerTransport(self._connection)
        transport.set_protocol(self._connection)
        self._connection.connection_made(transport)
        transport.pause_reading()  # until the agent can receive

    def receive(self, head: bytes, rest: bytes) -> Scope | None:
        """Take the request; return its scope, None if it is invalid and has been answered."""
        self._connection.pass_to_library(head)
        request = self._connection.request
        if request is not None:
            scope = _scope_of(request, self._connection.transport)
            if "Origin" in request.headers:
                del request.headers["Origin"]  # the application checks it, or several of them
            response = self._protocol.accept(request)
            if response.status_code == 101:
                self._response = response
                self._connection.data_received(rest)
                scope["extensions"] = {DIRECT_SOCKET: self}
                return scope
            self._protocol.send_response(response)
        self._end()
        return None

    def limit(self, frame_bytes: int, limits: ConnectionLimits) -> None:
        """Accept messages up to this size (R-WS-13), and send pings as the limits say."""
        self._protocol.max_message_size = self.transport.frame_bytes = frame_bytes
        self.transport.ping_interval_s = limits.ping_interval_s or None
        self.transport.ping_timeout_s = limits.ping_timeout_s or None

    async def accept(
        self, headers: Sequence[tuple[bytes, bytes]], subprotocol: str | None = None
    ) -> None:
        """Open the connection, unless the client has gone."""
        connection = self._connection
        if self._protocol.state is not CONNECTING or self._response is None:
            return
        for name, value in headers:
            self._response.headers[name.decode()] = value.decode()
        if subprotocol is not None:
            self._response.headers["Sec-WebSocket-Protocol"] = subprotocol
        self._protocol.send_response(self._response)
        self._response = connection.request = None  # for the memory
        connection.send_data()

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a status, and close the connection."""
        self._refuse(refusal.status, refusal.text, refusal.headers)

    def release(self) -> None:
        """Close a connection that the application has left without closing or refusing it."""
        if self._protocol.state is CONNECTING:
            self._refuse(500, "Internal Server Error", ())
        else:
            self._connection.transport.abort()

    def _refuse(self, status: int, text: str, headers: Sequence[tuple[str, str]]) -> None:
        if self._protocol.state is CONNECTING and not self._protocol.eof_sent:
            response = self._protocol.reject(status, f"{text}\n")
            response.headers["Cache-Control"] = "no-store"
            for name, value in headers:
                response.headers[name] = value
            self._protocol.send_response(response)
            self._end()

    def _end(self) -> None:
        """Send what is to be sent; the client closes the connection, or it is closed soon."""
        self._connection.send_data()
        self._connection.transport.resume_reading()
        loop = asyncio.get_running_loop()
        loop.call_later(REFUSE_S, self._connection.transport.abort)


def _scope_of(request: Request, transport: asyncio.Transport) -> Scope:
    """Return an ASGI scope for a WebSocket request."""
    path, _, query = request.path.partition("?")
    headers = [
        (name.lower().encode("ascii"), value.encode("latin-1"))  # as the library has decoded them
        for name, value in request.headers.raw_items()
    ]
    encrypted = transport.get_extra_info("sslcontext") is not None
    return {
        "type": "websocket",
        "asgi": {"spec_version": "2.3", "version": "3.0"},
        "http_version": "1.1",
        "scheme": "wss" if encrypted else "ws",
        "path": unquote(path),
        "raw_path": path.encode("ascii", "surrogateescape"),
        "query_string": query.encode("ascii", "surrogateescape"),
        "root_path": "",
        "headers": headers,
        "client": _address(transport.get_extra_info("peername")),
        "server": _address(transport.get_extra_info("sockname")),
        "subprotocols": [],
        "extensions": {},
    }


def _address(name: Any) -> tuple[str, int] | None:
    """Return the host and the port; None for a Unix socket, whose address is a string."""
    return None if isinstance(name, str | bytes | None) else (name[0], name[1])


class _Connection(FrameConnection):
    """A server's connection."""

    def __init__(self, protocol: ServerProtocol) -> None:
        super().__init__(protocol)
        self._early = b""  # what a client has sent before it is accepted

    def process_event(self, event: Any) -> None:
        if isinstance(event, Request):
            self.request: Request | None = event
        else:
            super().process_event(event)

    def _handshake_received(self, data: bytes) -> bytes:
        if not self.protocol.eof_sent:
            self._early += data
        return b""

    def open(self) -> None:
        """Begin to receive messages."""
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        self.transport.resume_reading()


class _ServerTransport(SocketTransport, NetworkTransport):
    """The transport over an accepted connection."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__()
        self._accepted = connection
        self._first_message: asyncio.TimerHandle | None = None
        self._is_silent = False

    @property
    def unsent_bytes(self) -> int:
        return self._accepted.transport.get_write_buffer_size()

    async def _open(self) -> FrameConnection:
        loop = asyncio.get_running_loop()
        self._first_message = loop.call_later(asgi_socket.FIRST_MESSAGE_S, self._give_up)
        self._accepted.open()
        return self._accepted

    def _error(self, connection: FrameConnection) -> Exception | None:
        if self._is_silent:
            return ConnectionLost("The client sent no message")
        if connection.protocol.close_rcvd is not None:
            return None
        sent = connection.protocol.close_sent
        if sent is not None:
            return ConnectionLost(f"The connection was closed with code {sent.code}")
        return ConnectionLost("The client has gone without a close message")

    def messages_received(self, messages: list[bytes]) -> None:
        self._stop_waiting()
        super().messages_received(messages)

    async def aclose(self) -> None:
        self._stop_waiting()
        if self._connection is None and self._closed is None:
            self._connection = self._accepted  # if it was never started
        await super().aclose()

    def _stop_waiting(self) -> None:
        if self._first_message is not None:
            self._first_message.cancel()
            self._first_message = None

    def _give_up(self) -> None:
        """End a connection on which nothing arrives (R-WS-15)."""
        self.close_code: int = POLICY_VIOLATION
        self.close_reason: str = "no message arrived"
        self._is_silent = True
        self.input_ended()


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
