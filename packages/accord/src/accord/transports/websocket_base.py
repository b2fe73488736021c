"""The transport over a WebSocket connection, of clients and of servers.

`SocketTransport` carries frames over a `FrameConnection`: a connection of the library `websockets`
that receives and sends many messages at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from abc import abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import Any, Protocol

from websockets.asyncio.connection import Connection
from websockets.frames import Frame as WsFrame
from websockets.frames import Opcode
from websockets.protocol import CLIENT, CLOSED, CONNECTING, OPEN

from accord.errors import ConnectionClosed, TransportError
from accord.transports.base import (
    HIGH_BYTES,
    LOW_BYTES,
    Frame,
    NullReceiver,
    Receiver,
    Transport,
)
from accord.transports.registry import (
    PING_S,
    REMOTE_FRAME_BYTES,
)

# WebSocket connections of the library `websockets` that take and send many messages at once.

try:
    from websockets.speedups import apply_mask
except ImportError:  # the library was built without it
    from websockets.utils import apply_mask


_HEAD_END = b"\r\n\r\n"
_TEXT = 0x81  # the first byte of a complete text message
_PING = 0x89
_MASKED = 0x80  # in the second byte
# The first two bytes of a complete text message of 126 to 65,535 bytes; its length follows.
_MEDIUM = 0x817E
_MEDIUM_MASKED = 0x81FE
_HEAD = Struct("!HH")
_pack_head, _unpack_head = _HEAD.pack, _HEAD.unpack_from
_JOIN_BYTES = 64 * 1024  # larger messages are not copied
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class Listener(Protocol):
    """Receives what arrives on a connection."""

    def messages_received(self, messages: list[bytes]) -> None: ...

    def input_ended(self) -> None:
        """Called at the end of input; may be called again when the connection is closed."""
        ...

    def writing_resumed(self) -> None: ...


class FrameConnection(Connection):
    """Passes on all text messages of a read together, and sends many in one write.

    The library takes several times as long to make objects and events of each message. So complete
    text messages are taken from the data here, and the library gets all other frames, whole, and
    the opening handshake. Binary messages are ignored.
    """

    def __init__(self, protocol: Any, **named: Any) -> None:
        named |= {"ping_interval": None, "write_limit": (HIGH_BYTES, LOW_BYTES)}
        super().__init__(protocol, **named)
        self.listener: Listener | None = None
        self.has_heard: bool = False  # whether anything has arrived since this was set to False
        self._head = b""  # the last bytes of an opening handshake that has not ended
        self._data = bytearray()  # after the opening handshake; begins with a frame
        self._frame_bytes = 0  # of that frame; 0 if not known yet
        self._parts: list[bytes] | None = None  # of a fragmented text message
        self._unheard: list[bytes] = []  # messages that arrived before there was a listener
        self._is_masked = protocol.side is not CLIENT

    # Sending.

    def send_messages(self, frames: Sequence[Frame]) -> None:
        """Send text messages; they are dropped if the connection is closed."""
        transport = self.transport
        if self.protocol.state is not OPEN or transport.is_closing():
            return
        masks = b"" if self._is_masked else os.urandom(4 * len(frames))
        parts: list[Frame] = []
        medium, bit = (_MEDIUM_MASKED, _MASKED) if masks else (_MEDIUM, 0)
        for index, payload in enumerate(frames):
            size = len(payload)
            if 126 <= size < 65536:
                parts.append(_pack_head(medium, size))
            elif size < 126:
                parts.append(bytes((_TEXT, size | bit)))
            else:
                parts.append(bytes((_TEXT, 127 | bit)) + size.to_bytes(8, "big"))
            if masks:
                mask = masks[4 * index : 4 * index + 4]
                parts.append(mask)
                payload = apply_mask(payload, mask)
            if size > _JOIN_BYTES:
                transport.write(b"".join(parts))
                parts.clear()
                transport.write(payload)
            else:
                parts.append(payload)
        if parts:
            transport.write(b"".join(parts))

    def send_ping(self) -> bool:
        """Send a ping; return False if the connection is closed."""
        if self.protocol.state is not OPEN or self.transport.is_closing():
            return False
        self.protocol.send_ping(b"")
        self.send_data()
        return True

    def send_close(self, code: int, reason: str) -> None:
        """Begin to close, unless the connection is being closed."""
        if self.protocol.state is OPEN:
            self.protocol.send_close(code, reason)
            self.send_data()

    def give_up(self, code: int, reason: str) -> None:
        """Send a code to a peer that may be gone, and close the socket."""
        self.protocol.fail(code, reason)
        self.send_data()
        self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.listener is not None:
            self.listener.writing_resumed()

    # Receiving.

    def listen(self, listener: Listener) -> list[bytes]:
        """Let a listener receive what arrives; return the messages that have arrived."""
        self.listener = listener
        unheard, self._unheard = self._unheard, []
        return unheard

    def data_received(self, data: bytes) -> None:
        self.has_heard = True
        if self.protocol.state is CONNECTING:
            data = self._handshake_received(data)
        if data:
            self._frames_received(data)

    def eof_received(self) -> None:
        super().eof_received()
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        was_paused = self.paused
        super().connection_lost(exc)
        self._end()
        if was_paused and self.listener is not None:
            self.listener.writing_resumed()

    @property
    def has_ended(self) -> bool:
        """Whether no more messages will arrive: the peer has closed, or has made an error."""
        protocol = self.protocol
        return (
            protocol.close_rcvd is not None
            or protocol.parser_exc is not None
            or protocol.state is CLOSED
        )

    def pass_to_library(self, data: bytes) -> None:
        """Let the library receive data: of the opening handshake, or one frame."""
        super().data_received(data)

    def _handshake_received(self, data: bytes) -> bytes:
        """Pass data of the opening handshake to the library; return the frames that follow."""
        known = len(self._head)
        joined = self._head + data
        end = joined.find(_HEAD_END)
        if end < 0:
            self._head = joined[-3:]
            self.pass_to_library(data)
            return b""
        self._head = b""
        cut = end + len(_HEAD_END) - known
        self.pass_to_library(data[:cut])
        rest = data[cut:]
        if self.protocol.state is not CONNECTING:
            return rest
        if rest:  # the body of a refusal
            self.pass_to_library(rest)
        return b""

    def _frames_received(self, data: bytes) -> None:
        if self._data:
            self._data += data
            if len(self._data) < self._frame_bytes:
                return
            data = bytes(self._data)
            self._data = bytearray()
        if (taken := self._split(data)) < len(data):
            self._data += memoryview(data)[taken:]

    def _split(self, data: bytes) -> int:
        """Take the complete frames at the beginning of the data; return their length."""
        protocol = self.protocol
        limit = protocol.max_message_size or sys.maxsize
        is_masked = self._is_masked
        self._frame_bytes = 0
        messages: list[bytes] = []
        at, end = 0, len(data)
        ended = self.has_ended
        is_whole = protocol.current_size is None and limit >= 65536  # no fragments are collected
        medium = _MEDIUM_MASKED if is_masked else _MEDIUM
        skip = 8 if is_masked else 4
        while end - at >= 2 and not ended:
            # Most messages, in less than half the time of the general case below.
            if is_whole and end - at >= 4:
                head, size = _unpack_head(data, at)
                if head == medium:
                    start = at + skip
                    stop = start + size
                    if stop > end:
                        self._frame_bytes = stop - at
                        break
                    payload = data[start:stop]
                    if is_masked:
                        payload = apply_mask(payload, data[start - 4 : start])
                    messages.append(payload)
                    at = stop
                    continue
            size = data[at + 1] & 127
            start = at + 2
            if size > 125:
                start += 2 if size == 126 else 8
                if start > end:
                    break
                size = int.from_bytes(data[at + 2 : start], "big")
            if is_masked:
                start += 4
            stop = start + size
            if stop > end and size <= limit:
                self._frame_bytes = stop - at
                break
            if (
                data[at] == _TEXT
                and (data[at + 1] >= _MASKED) is is_masked
                and size <= limit
                and protocol.current_size is None
            ):
                payload = data[start:stop]
                messages.append(
                    apply_mask(payload, data[start - 4 : start]) if is_masked else payload
                )
                at = stop
                continue
            if data[at] == _PING and self.paused and size < 126:
                at = stop  # the peer does not read: pongs would fill the memory
                continue
            if messages:
                self._deliver(messages)
                messages = []
            self.pass_to_library(data[at:stop])
            is_whole = protocol.current_size is None and limit >= 65536
            ended = self.has_ended
            at = min(stop, end)
        if messages:
            self._deliver(messages)
        if ended:
            self._end()
            return end
        return at

    def process_event(self, event: Any) -> None:
        """Receive a frame from the library: of control, or a part of a fragmented message."""
        if not isinstance(event, WsFrame) or event.opcode not in _DATA:
            super().process_event(event)
            return
        if event.opcode is not Opcode.CONT:
            self._parts = [] if event.opcode is Opcode.TEXT else None
        if self._parts is None:
            return
        self._parts.append(bytes(event.data))
        if event.fin:
            parts, self._parts = self._parts, None
            self._deliver([b"".join(parts)])

    def _deliver(self, messages: list[bytes]) -> None:
        if self.listener is None:
            self._unheard += messages
        else:
            self.listener.messages_received(messages)

    def _end(self) -> None:
        if self.listener is not None:
            self.listener.input_ended()


# The transport over a WebSocket connection, of clients and of servers.

CLOSE_S = 4.0  # for the peer to read what was written before `aclose`, and to close
NORMAL = 1000
INTERNAL = 1011


class SocketTransport(Transport):
    """Carries frames over a WebSocket connection; one text message is one frame.

    No task runs for a connection: frames are received and sent within calls of the event loop. A
    subclass opens the connection and names the error at its end. `close_code` and `close_reason`
    are sent by `aclose`. A ping interval of None means no pings, a ping timeout of None that they
    need no answer; both are read by `start`.
    """

    close_code: int = NORMAL
    close_reason: str = ""

    def __init__(
        self,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
        ping_interval_s: float | None = PING_S,
        ping_timeout_s: float | None = PING_S,
    ) -> None:
        self.frame_bytes = frame_bytes
        self.ping_interval_s = ping_interval_s
        self.ping_timeout_s = ping_timeout_s
        self._ping_timer: asyncio.TimerHandle | None = None
        self._receiver: Receiver = NullReceiver()
        self._connection: FrameConnection | None = None
        self._held: list[Frame] = []  # frames that arrived while reading was paused
        self._paused = False
        self._input_over = False
        self._ended = False
        self._closed: asyncio.Future[None] | None = None

    @abstractmethod
    async def _open(self) -> FrameConnection:
        """Connect; raise `TransportError` or `OSError` if that fails."""

    @abstractmethod
    def _error(self, connection: FrameConnection) -> Exception | None:
        """Return why the connection has ended, None if the peer has closed it in order."""

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        try:
            connection = await self._open()
        except OSError as exc:
            raise TransportError(f"Cannot connect: {exc}") from exc
        self._connection = connection
        if self._closed is not None:
            await self._close(connection)
            raise ConnectionClosed("The transport was closed")
        self._receiver = receiver
        self._held += connection.listen(self)
        self._input_over = connection.has_ended
        asyncio.get_running_loop().call_soon(self._deliver_held)
        self._ping_later(self.ping_interval_s)

    def write(self, frames: Sequence[Frame]) -> None:
        if self._closed is None and self._connection is not None:
            self._connection.send_messages(frames)

    @property
    def congested(self) -> bool:
        return self._closed is None and self._connection is not None and self._connection.paused

    def pause_reading(self) -> None:
        if self._connection is not None and not self._paused:
            self._paused = True
            self._connection.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._connection is not None and self._paused:
            self._paused = False
            self._connection.transport.resume_reading()
            if self._held or self._input_over:
                asyncio.get_running_loop().call_soon(self._deliver_held)

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._receiver = NullReceiver()
        self._held.clear()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        try:
            if self._connection is not None:
                await self._close(self._connection)
        finally:
            self._closed.set_result(None)

    async def _close(self, connection: FrameConnection) -> None:
        """Send what was written and the code, wait for the peer, and release the socket."""
        self._paused = False
        connection.transport.resume_reading()
        try:
            async with asyncio.timeout(CLOSE_S):
                connection.send_close(self.close_code, self.close_reason)
                await asyncio.shield(connection.connection_lost_waiter)
        except TimeoutError:
            pass
        finally:
            connection.transport.abort()
        await connection.connection_lost_waiter

    # The listener of the connection.

    def messages_received(self, messages: list[bytes]) -> None:
        if self._paused or self._held:
            self._held += messages
        else:
            self._receiver.frames_received(messages)

    def input_ended(self) -> None:
        self._input_over = True
        if not self._paused and not self._held:
            self._end()

    def writing_resumed(self) -> None:
        self._receiver.writable()

    def _deliver_held(self) -> None:
        if self._paused:
            return
        if self._held:
            held, self._held = self._held, []
            self._receiver.frames_received(held)
        if self._input_over and not self._paused:
            self._end()

    def _end(self) -> None:
        if not self._ended and self._connection is not None:
            self._ended = True
            self._receiver.eof_received(self._error(self._connection))

    # Pings (R-WS-14).

    def _ping_later(self, delay_s: float | None) -> None:
        if delay_s is not None:
            loop = asyncio.get_running_loop()
            self._ping_timer = loop.call_later(delay_s, self._ping)

    def _ping(self) -> None:
        connection = self._connection
        if connection is None or not connection.send_ping():
            return
        if self.ping_timeout_s is None:
            self._ping_later(self.ping_interval_s)
            return
        connection.has_heard = False
        loop = asyncio.get_running_loop()
        self._ping_timer = loop.call_later(self.ping_timeout_s, self._check_pong)

    def _check_pong(self) -> None:
        """Give the connection up if nothing has arrived, although we read."""
        connection = self._connection
        if connection is None or connection.has_ended:
            return
        if connection.has_heard or self._paused:
            interval_s, timeout_s = self.ping_interval_s or 0.0, self.ping_timeout_s or 0.0
            self._ping_later(max(interval_s - timeout_s, 0.0))
        else:
            connection.give_up(INTERNAL, "no answer to a ping")
