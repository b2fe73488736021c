"""One end of a WebSocket connection that shows every frame, and can send wrong ones."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from accord_conformance.network.http_message import ByteReader

_MAX_BYTES = 80 * 1024 * 1024
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_ABNORMAL = 1006
_CLOSE_S = 2.0


def accept_key(key: str) -> str:
    """Return the answer to the key of a handshake."""
    return base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()


class RawSocket:
    """An open WebSocket connection; call `start` once.

    `texts` and `binaries` have the received messages, and `pings` counts the received pings, which
    are answered. `close_code` is set when the connection has ended: 1006 without a close message.
    """

    def __init__(
        self,
        reader: ByteReader,
        writer: asyncio.StreamWriter,
        *,
        is_client: bool,
        on_text: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.texts: list[bytes] = []
        self.binaries: list[bytes] = []
        self.pings = 0
        self.takes_binary = False  # as text
        self.close_code: int | None = None
        self.close_reason = ""
        self._reader, self._writer = reader, writer
        self._on_text = on_text
        side = Side.CLIENT if is_client else Side.SERVER
        self._protocol = Protocol(side, state=State.OPEN, max_size=_MAX_BYTES)
        self._parts: list[bytes] = []
        self._is_text = True
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.ensure_future(self._read())

    def send_text(self, text: bytes) -> None:
        """Send a text message."""
        self._protocol.send_text(text)
        self._flush()

    def send_binary(self, data: bytes) -> None:
        """Send a binary message."""
        self._protocol.send_binary(data)
        self._flush()

    def send_ping(self) -> None:
        """Send a ping."""
        self._protocol.send_ping(b"")
        self._flush()

    async def drain(self) -> None:
        """Wait until what was sent has left this process, nearly."""
        with suppress(OSError):
            await self._writer.drain()

    async def wait(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until a condition holds, or the connection has ended; return whether it holds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds() and self.close_code is None:
                    self._changed.clear()
                    await self._changed.wait()
        return holds()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection in order, in bounded time."""
        with suppress(Exception):
            self._protocol.send_close(code, reason)
            self._flush()
        await self.wait(lambda: False, _CLOSE_S)
        self.abort()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abort(self) -> None:
        """Cut the connection, without a close message."""
        transport = self._writer.transport
        if not transport.is_closing():
            transport.abort()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data and not self._writer.is_closing():
                self._writer.write(data)

    async def _read(self) -> None:
        while self.close_code is None:
            data = await self._reader.some()
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            for event in self._protocol.events_received():
                if isinstance(event, Frame):
                    self._received(event)
            self._flush()
            closed = self._protocol.close_rcvd
            if not data or closed is not None:
                self.close_code = closed.code if closed is not None else _ABNORMAL
                self.close_reason = closed.reason if closed is not None else ""
            self._changed.set()
        if not self._writer.is_closing():
            self._writer.close()

    def _received(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONT:
                if frame.opcode is not Opcode.CONT:
                    self._parts = []
                    self._is_text = frame.opcode is Opcode.TEXT
                self._parts.append(bytes(frame.data))
                if frame.fin:
                    message = b"".join(self._parts)
                    (self.texts if self._is_text else self.binaries).append(message)
                    if self._is_text or self.takes_binary:
                        self._on_text(message)
            case Opcode.PING:
                self.pings += 1
            case _:
                return
