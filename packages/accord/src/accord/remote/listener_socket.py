"""WebSocket connections that this package accepts itself, without an ASGI server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from websockets.http11 import Request, Response
from websockets.protocol import CONNECTING
from websockets.server import ServerProtocol

from accord.errors import ConnectionLost
from accord.remote import asgi_socket
from accord.remote.access import Refusal
from accord.remote.asgi_socket import DIRECT_SOCKET
from accord.remote.asgi_types import Scope
from accord.remote.connection_limits import ConnectionLimits
from accord.remote.network_transport import POLICY_VIOLATION, NetworkTransport
from accord.transports.registry import REMOTE_FRAME_BYTES
from accord.transports.websocket_base import FrameConnection, SocketTransport

# The library logs messages at the level DEBUG (R-SEC-10).
log: logging.Logger = logging.getLogger("accord.remote.websocket")
log.setLevel(logging.WARNING)

REFUSE_S = 2.0  # for a client to read why it is refused


class SocketHandshake:
    """A client that wants to open a WebSocket connection: call `accept` or `refuse`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._protocol = ServerProtocol(max_size=REMOTE_FRAME_BYTES, logger=log)
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
