"""The WebSocket transport: a client's connection to a remote agent."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed as Closed
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.frames import Frame as WsFrame
from websockets.frames import Opcode

from accord.errors import ConnectionLost, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.transports.base import HIGH_BYTES, Frame, TransportFactory
from accord.transports.cookies import CookieStore
from accord.transports.http_status import advice_for, redirect_error, where
from accord.transports.messages import MessageTransport
from accord.transports.registry import RemoteOptions
from accord.transports.remote_address import REMOTE_FRAME_BYTES, login_headers, remote_url

__all__ = ("WebSocketTransport", "websocket")

log: logging.Logger = logging.getLogger("accord.transports.websocket")

HANDSHAKE_S = 10.0  # R-WS-15
PING_S = 20.0  # between two pings, and for the answer (R-WS-14)

_NO_WEBSOCKET = "the server does not accept WebSocket connections here"
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


def websocket(
    url: str,
    options: RemoteOptions | None = None,
    *,
    frame_bytes: int = REMOTE_FRAME_BYTES,
    ping_interval_s: float | None = PING_S,
    ping_timeout_s: float | None = PING_S,
) -> TransportFactory:
    """Return what connects to an agent at a `ws://` or `wss://` URL.

    An empty path means `/acp`. Redirects are not followed. Raises `ValueError` for a URL that
    must not be used.
    """
    options = options or RemoteOptions()
    if options.cookies is None:  # transports of one factory share the cookies
        options = structs.replace(options, cookies=CookieStore())
    address = remote_url(url, options)
    if urlsplit(address).scheme.lower() not in ("ws", "wss"):
        raise ValueError(f"Expected a URL with ws or wss, got {excerpt(url)!r}")
    return lambda: WebSocketTransport(
        address,
        options,
        frame_bytes=frame_bytes,
        ping_interval_s=ping_interval_s,
        ping_timeout_s=ping_timeout_s,
    )


class WebSocketTransport(MessageTransport):
    """A connection to a WebSocket server; one text message is one frame.

    `connection_id` is what the server calls the connection, None if it does not say (R-WS-10).
    """

    def __init__(
        self,
        url: str,
        options: RemoteOptions,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
        ping_interval_s: float | None = PING_S,
        ping_timeout_s: float | None = PING_S,
    ) -> None:
        super().__init__(frame_bytes=frame_bytes)
        self._url = url
        self._options = options
        self._cookies = options.cookies or CookieStore()
        self._ping_interval_s = ping_interval_s
        self._ping_timeout_s = ping_timeout_s
        self._socket: _Connection | None = None
        self.connection_id: str | None = None

    async def _open(self) -> None:
        options = self._options
        secure: dict[str, Any] = {}
        if options.ca_file is not None and self._url.startswith("wss:"):
            secure["ssl"] = ssl.create_default_context(cafile=options.ca_file)
        headers = login_headers(options)
        if cookies := self._cookies.header(self._url):
            headers["Cookie"] = cookies
        opening = _Connect(
            self._url,
            compression=None,
            additional_headers=headers,
            open_timeout=HANDSHAKE_S,
            ping_interval=self._ping_interval_s,
            ping_timeout=self._ping_timeout_s,
            max_size=self.frame_bytes,
            proxy=True if options.trust_env else None,
            create_connection=_Connection,
            logger=log,
            **secure,
        )
        address = where(self._url)
        try:
            connection = await opening
        except InvalidStatus as exc:
            raise TransportError(_refusal(self._url, exc)) from None
        except (InvalidHandshake, TimeoutError, OSError) as exc:
            reason = one_line(str(exc)) or type(exc).__name__
            raise TransportError(f"Cannot connect to {address}: {reason}") from exc
        assert isinstance(connection, _Connection)
        self._socket = connection
        assert connection.response is not None
        self._cookies.take(self._url, connection.response.headers.get_all("Set-Cookie"))
        self.connection_id = connection.response.headers.get("Acp-Connection-Id")

    async def _receive(self) -> Frame | None:
        raise NotImplementedError  # `_receive_all` does not call it

    async def _receive_all(self) -> Sequence[Frame] | None:
        socket = self._open_socket
        frames = await socket.take()
        if frames:
            return frames
        sent, received = socket.protocol.close_sent, socket.protocol.close_rcvd
        if received is not None and received.code == 1000:
            return None
        address = where(self._url)
        if received is not None:
            why = f" ({one_line(excerpt(received.reason))})" if received.reason else ""
            shown = _code(received.code)
            raise ConnectionLost(f"{address} closed the connection: {shown}{why}")
        if sent is not None and sent.code != 1000:
            raise ConnectionLost(f"The connection to {address} was closed: {_code(sent.code)}")
        raise ConnectionLost(f"The connection to {address} was lost: {_code(1006)}")

    async def _send(self, frame: Frame) -> None:
        try:
            await self._open_socket.send(frame, text=True)
        except Closed as exc:
            raise ConnectionLost(f"{where(self._url)} has closed the connection") from exc

    async def _close(self) -> None:
        try:
            await self._open_socket.close()
        except WebSocketException as exc:
            log.debug("! the connection was not closed in order: %s", exc)

    @property
    def _open_socket(self) -> _Connection:
        assert self._socket is not None, "opened"
        return self._socket


class _Connect(connect):
    """Opens a connection without following redirects (R-WS-12)."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Connection(ClientConnection):
    """A connection that collects the text messages of one read.

    The library's own queue wakes its reader for each message, which takes several times as long
    for streamed text. Binary messages are ignored. Above `HIGH_BYTES` reading pauses.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._parts: list[bytes] | None = None  # of a fragmented message
        self._is_text = False
        self._arrived: asyncio.Future[None] | None = None
        self._over = False
        self._paused = False

    def process_event(self, event: Any) -> None:
        if not isinstance(event, WsFrame) or event.opcode not in _DATA:
            super().process_event(event)
            return
        if event.opcode is not Opcode.CONT:
            self._is_text = event.opcode is Opcode.TEXT
            if event.fin:
                if self._is_text:
                    self._add(bytes(event.data))
                return
            self._parts = []
        if self._parts is None:
            return
        if self._is_text:
            self._parts.append(bytes(event.data))
        if event.fin:
            parts, self._parts = self._parts, None
            if self._is_text:
                self._add(b"".join(parts))

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self._bytes += len(message)
        if self._bytes > HIGH_BYTES and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def take(self) -> list[bytes]:
        """Return the messages that have arrived; none at the end of the connection."""
        while not self._messages and not self._over:
            self._arrived = self.loop.create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        messages = list(self._messages)
        self._messages.clear()
        self._bytes = 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return messages

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._over = True
        self._wake()


def _refusal(url: str, exc: InvalidStatus) -> str:
    """Return the error message for a server that did not accept the connection."""
    response = exc.response
    status = response.status_code
    if 300 <= status < 400:
        return redirect_error(url, response.headers.get("Location"))
    advice = advice_for(status, response.reason_phrase, _426=_NO_WEBSOCKET)
    return f"{where(url)} refused the connection with status {status}{advice}"


def _code(code: int) -> str:
    known = {
        1001: "the server is going away",
        1002: "a protocol error",
        1006: "no close message arrived",
        1008: "the server refuses to continue",
        1009: "a message was too large",
        1011: "an internal error, or no answer to a ping",
    }
    return f"code {code}" + (f", {known[code]}" if code in known else "")
