"""The server's end of a WebSocket connection, as a transport on the ASGI interface.

`MessageTransport` is for any stream of messages, `AsgiSocket` for that of an ASGI server.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from accord.errors import ConnectionClosed, ConnectionLost, TransportError
from accord.jsonrpc.message import HEAD_BYTES
from accord.remote.access import (
    POLICY_VIOLATION,
    ConnectionLimits,
    NetworkTransport,
    Receive,
    Refusal,
    Scope,
    Send,
    respond,
)
from accord.transports.base import (
    FRAME_BYTES,
    HIGH_BYTES,
    LOW_BYTES,
    Frame,
    NullReceiver,
    Receiver,
    Transport,
)
from accord.transports.registry import REMOTE_FRAME_BYTES

# Base class of transports over a stream of messages, such as a WebSocket.

FLUSH_S = 2.0  # for the peer to read what was written before `aclose`
_SEND_BYTES = 64 * 1024  # passed to `_send_all` together
LINGER_S = 1.0  # for the input to end after a failed write


class MessageTransport(Transport):
    """Sends and receives one frame per message.

    A subclass implements four coroutines: `_open`, `_receive`, `_send` and `_close`. It may
    override `_receive_all` and `_send_all` if several messages together take less time. This class
    runs one task that receives and one that sends. `write` appends to a queue; the transport is
    congested while the queue holds more than `HIGH_BYTES`.
    """

    def __init__(self, *, frame_bytes: int = FRAME_BYTES) -> None:
        self.frame_bytes = frame_bytes
        self._receiver: Receiver = NullReceiver()
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._unsent: deque[Frame] = deque()
        self._unsent_bytes = 0
        self._unsent_changed = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._congested = False
        self._ended = False
        self._error: ConnectionLost | None = None  # of a write
        self._lingering: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    @abstractmethod
    async def _open(self) -> None:
        """Connect; raise `TransportError` or `OSError` if that fails."""

    @abstractmethod
    async def _receive(self) -> Frame | None:
        """Return the next message, or None at the end of input.

        Raise `TransportError` or `OSError` if the connection breaks.
        """

    @abstractmethod
    async def _send(self, frame: Frame) -> None:
        """Send a message; return once the next one may be sent.

        Raise `TransportError` or `OSError` if the peer no longer reads.
        """

    async def _receive_all(self) -> Sequence[Frame] | None:
        """Return the messages that have arrived, at least one, or None at the end of input."""
        frame = await self._receive()
        return None if frame is None else (frame,)

    async def _send_all(self, frames: Sequence[Frame]) -> None:
        """Send messages; return once the next one may be sent."""
        for frame in frames:
            await self._send(frame)

    @abstractmethod
    async def _close(self) -> None:
        """Close the connection; called only after `_open` has returned."""

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        try:
            await self._open()
        except OSError as exc:
            raise TransportError(f"Cannot connect: {exc}") from exc
        self._receiver = receiver
        self._reader = asyncio.create_task(self._read(), name="accord read")
        self._writer = asyncio.create_task(self._write(), name="accord write")

    def write(self, frames: Sequence[Frame]) -> None:
        if self._closed is not None or self._error is not None or not frames:
            return
        self._unsent += frames
        self._unsent_bytes += sum(map(len, frames))
        self._congested = self._congested or self._unsent_bytes > HIGH_BYTES
        self._all_sent.clear()
        self._unsent_changed.set()

    @property
    def congested(self) -> bool:
        return self._congested

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._receiver = NullReceiver()
        self._congested = False
        try:
            await self._close_both()
        finally:
            self._closed.set_result(None)

    async def _close_both(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if self._reader is None or self._writer is None:
            return
        await _cancel(self._reader)
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._all_sent.wait()
        await _cancel(self._writer)
        with suppress(TimeoutError, OSError, TransportError):
            async with asyncio.timeout(FLUSH_S):
                await self._close()

    async def _read(self) -> None:
        error: Exception | None = None
        try:
            while (frames := await self._receive_all()) is not None:
                await self._may_read.wait()
                self._deliver(frames)
        except (OSError, TransportError) as exc:
            error = exc if isinstance(exc, TransportError) else ConnectionLost(f"{exc}")
        await self._may_read.wait()
        self._end(self._error or error)

    def _deliver(self, frames: Sequence[Frame]) -> None:
        limit = self.frame_bytes
        if all(len(frame) <= limit for frame in frames):
            self._receiver.frames_received(frames)
            return
        for frame in frames:
            if len(frame) <= limit:
                self._receiver.frames_received([frame])
            else:
                self._receiver.frame_refused(limit, bytes(frame[:HEAD_BYTES]))

    async def _write(self) -> None:
        try:
            while True:
                await self._unsent_changed.wait()
                self._unsent_changed.clear()
                while self._unsent:
                    frames = self._take_unsent()
                    await self._send_all(frames)
                    self._count_sent(sum(map(len, frames)))
                self._all_sent.set()
        except (OSError, TransportError):
            self._break()

    def _take_unsent(self) -> list[Frame]:
        """Remove and return the first frames, up to `_SEND_BYTES` of them and at least one."""
        frames = [self._unsent.popleft()]
        left = _SEND_BYTES - len(frames[0])
        while self._unsent and (left := left - len(self._unsent[0])) >= 0:
            frames.append(self._unsent.popleft())
        return frames

    def _count_sent(self, size: int) -> None:
        self._unsent_bytes -= size
        if self._congested and self._unsent_bytes <= LOW_BYTES:
            self._congested = False
            self._receiver.writable()

    def _break(self) -> None:
        """Stop writing; frames that the peer sent before still count."""
        self._error = ConnectionLost("The peer stopped reading")
        self._unsent.clear()
        self._all_sent.set()
        if self._congested:
            self._congested = False
            self._receiver.writable()
        loop = asyncio.get_running_loop()
        self._lingering = loop.call_later(LINGER_S, self._give_up_reading)

    def _give_up_reading(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._end(self._error)

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._receiver.eof_received(error)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


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
