"""The server's end of a WebSocket connection, as a transport on the ASGI interface."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from accord.errors import ConnectionLost
from accord.remote.access import Refusal
from accord.remote.asgi_types import Receive, Scope, Send
from accord.remote.connection_limits import ConnectionLimits
from accord.remote.http_responses import respond
from accord.remote.network_transport import POLICY_VIOLATION, NetworkTransport
from accord.transports.base import Frame
from accord.transports.messages import MessageTransport
from accord.transports.registry import REMOTE_FRAME_BYTES

# The extension of a scope with a `WebSocketHandshake` that does not need the ASGI server.
DIRECT_SOCKET = "accord.socket"
FIRST_MESSAGE_S = 30.0  # R-WS-15


class AsgiSocket(MessageTransport, NetworkTransport):
    """A WebSocket connection that an ASGI server has accepted.

    The code is 1000 and the reason empty unless they are set before `aclose`.
    """

    def __init__(
        self, receive: Receive, send: Send, *, frame_bytes: int = REMOTE_FRAME_BYTES
    ) -> None:
        super().__init__(frame_bytes=frame_bytes)
        self._asgi_receive = receive
        self._asgi_send = send
        self._disconnected = False
        self._has_received = False

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    async def _open(self) -> None:
        pass

    async def aclose(self) -> None:
        await super().aclose()
        with suppress(ConnectionLost, OSError):
            await self._close()  # if it was never started

    async def _receive(self) -> Frame | None:
        if self._has_received:
            return await self._next_message()
        try:
            async with asyncio.timeout(FIRST_MESSAGE_S):
                frame = await self._next_message()
        except TimeoutError:
            self.close_code = POLICY_VIOLATION
            self.close_reason = "no message arrived"
            raise ConnectionLost("The client sent no message") from None
        self._has_received = True
        return frame

    async def _next_message(self) -> Frame | None:
        while True:
            event = await self._asgi_receive()
            if event["type"] == "websocket.disconnect":
                self._disconnected = True
                return None  # some servers have the code 1006 for every end
            text = event.get("text")
            if text is not None:
                return text.encode()  # binary messages are ignored

    async def _send(self, frame: Frame) -> None:
        if self._disconnected:
            raise ConnectionLost("The client has closed the connection")
        try:
            await self._asgi_send({"type": "websocket.send", "text": frame.decode()})
        except Exception as exc:  # servers raise what they like
            raise ConnectionLost("The client has closed the connection") from exc

    async def _close(self) -> None:
        if not self._disconnected:
            self._disconnected = True
            closing = {"code": self.close_code, "reason": self.close_reason}
            await self._asgi_send({"type": "websocket.close", **closing})


class WebSocketHandshake(Protocol):
    """A client that wants to open a WebSocket connection: call `accept` or `refuse`."""

    @property
    def transport(self) -> NetworkTransport:
        """The transport over the connection, once it is accepted."""
        ...

    async def accept(
        self, headers: Sequence[tuple[bytes, bytes]], subprotocol: str | None = None
    ) -> None: ...

    async def refuse(self, refusal: Refusal) -> None: ...


async def handshake_of(
    scope: Scope, receive: Receive, send: Send, frame_bytes: int, limits: ConnectionLimits
) -> WebSocketHandshake:
    """Return the handshake of a scope of the type `websocket`."""
    direct = scope.get("extensions", {}).get(DIRECT_SOCKET)
    if direct is not None:
        direct.limit(frame_bytes, limits)
        return direct
    await receive()  # websocket.connect
    return _AsgiHandshake(scope, receive, send, frame_bytes)


class _AsgiHandshake:
    def __init__(self, scope: Scope, receive: Receive, send: Send, frame_bytes: int) -> None:
        self._scope = scope
        self._send = send
        self.transport: AsgiSocket = AsgiSocket(receive, send, frame_bytes=frame_bytes)

    async def accept(
        self, headers: Sequence[tuple[bytes, bytes]], subprotocol: str | None = None
    ) -> None:
        chosen = {} if subprotocol is None else {"subprotocol": subprotocol}
        await self._send({"type": "websocket.accept", "headers": list(headers), **chosen})

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a status; servers without the extension answer 403."""
        if "websocket.http.response" not in self._scope.get("extensions", {}):
            await self._send({"type": "websocket.close"})
            return

        async def send_response(event: Any) -> None:
            await self._send({**event, "type": f"websocket.{event['type']}"})

        body = f"{refusal.text}\n".encode()
        await respond(
            send_response, refusal.status, body, "text/plain; charset=utf-8", refusal.headers
        )
