"""Two connected transports in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from accord.errors import ConnectionClosed
from accord.jsonrpc.message import HEAD_BYTES
from accord.transports.base import FRAME_BYTES, HIGH_BYTES, Frame, Receiver, Transport


def pair(
    *, limit_bytes: int = HIGH_BYTES, frame_bytes: int = FRAME_BYTES
) -> tuple[MemoryTransport, MemoryTransport]:
    """Return both ends; one is congested while the other has more than `limit_bytes` unread."""
    there, back = _MemoryPipe(limit_bytes), _MemoryPipe(limit_bytes)
    return (
        MemoryTransport(there, back, frame_bytes=frame_bytes),
        MemoryTransport(back, there, frame_bytes=frame_bytes),
    )


class _MemoryPipe:
    """One direction: the frames that were written and not yet read."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.frames: list[Frame] = []
        self.size_bytes: int = 0
        self.congested: bool = False
        self.written_to_end = False
        self.read_to_end = False
        self.tell_reader: Callable[[], None] = _nothing
        self.tell_writer: Callable[[], None] = _nothing

    def put(self, frames: Sequence[Frame]) -> None:
        if self.written_to_end or self.read_to_end:
            return
        self.frames += frames
        self.size_bytes += sum(map(len, frames))
        if self.size_bytes > self.limit_bytes:
            self.congested = True
        self.tell_reader()

    def take(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        self.size_bytes = 0
        if self.congested:
            self.congested = False
            self.tell_writer()
        return frames


class MemoryTransport(Transport):
    """One end of a pair; made by `pair`."""

    def __init__(self, outgoing: _MemoryPipe, incoming: _MemoryPipe, *, frame_bytes: int) -> None:
        self._out = outgoing
        self._in = incoming
        self.frame_bytes = frame_bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receiver: Receiver | None = None
        self._due = False
        self._paused = False
        self._ended = False
        self._closed = False

    async def start(self, receiver: Receiver) -> None:
        if self._closed:
            raise ConnectionClosed("The transport was closed")
        self._loop = asyncio.get_running_loop()
        self._receiver = receiver
        self._in.tell_reader = self._deliver_soon
        self._out.tell_writer = self._writable_soon
        self._deliver_soon()

    def write(self, frames: Sequence[Frame]) -> None:
        if frames:
            self._out.put(frames)

    @property
    def congested(self) -> bool:
        return self._out.congested

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._deliver_soon()

    async def aclose(self) -> None:
        self._closed = True
        self._receiver = None
        self._out.written_to_end = True
        self._out.tell_reader()
        self._in.read_to_end = True
        self._in.take()

    def _deliver_soon(self) -> None:
        if self._loop is not None and not self._due:
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        receiver = self._receiver
        if receiver is None or self._paused:
            return
        frames = self._in.take()
        fitting = [frame for frame in frames if len(frame) <= self.frame_bytes]
        if fitting:
            receiver.frames_received(fitting)
        if len(fitting) < len(frames):
            for frame in frames:
                if len(frame) > self.frame_bytes:
                    receiver.frame_refused(self.frame_bytes, bytes(frame[:HEAD_BYTES]))
        if self._in.written_to_end and not self._ended:
            if self._paused:
                return
            self._ended = True
            receiver.eof_received(None)

    def _writable_soon(self) -> None:
        if self._loop is not None:
            self._loop.call_soon(self._writable)

    def _writable(self) -> None:
        if self._receiver is not None and not self._out.congested:
            self._receiver.writable()


def _nothing() -> None:
    pass
