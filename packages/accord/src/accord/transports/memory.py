"""Transports within one process: two connected ends, what is served here, and a relay.

`pair` makes two ends, `ServedTransport` connects to a coroutine that serves its end, and `relay`
passes frames between two transports as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import UNSET

from accord.errors import ConnectionClosed, InvalidRequest
from accord.jsonrpc.message import HEAD_BYTES, read_head
from accord.text import lenient_json
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


class ServedTransport(Transport):
    """Connects to `serve(transport)`, which starts with this transport and ends with it.

    An exception that it raises or returns is how the peer ended.
    """

    def __init__(self, serve: Callable[[Transport], Coroutine[Any, Any, Any]]) -> None:
        self._serve = serve
        self._here, self._there = pair(frame_bytes=self.frame_bytes)
        self._serving: asyncio.Task[Any] | None = None
        self._is_closed = False

    async def start(self, receiver: Receiver) -> None:
        if self._is_closed:
            raise ConnectionClosed("The transport was closed")
        await self._here.start(receiver)
        self._serving = asyncio.create_task(self._run(), name="accord served")

    async def _run(self) -> Any:
        try:
            return await self._serve(self._there)
        finally:
            await self._there.aclose()

    def write(self, frames: Sequence[Frame]) -> None:
        self._here.write(frames)

    @property
    def congested(self) -> bool:
        return self._here.congested

    def pause_reading(self) -> None:
        self._here.pause_reading()

    def resume_reading(self) -> None:
        self._here.resume_reading()

    async def exit_error(self) -> Exception | None:
        """Return the exception with which it ended."""
        if self._serving is None:
            return None
        await asyncio.wait([self._serving])
        if self._serving.cancelled():
            return None
        ended = self._serving.exception() or self._serving.result()
        return ended if isinstance(ended, Exception) else None

    async def aclose(self) -> None:
        self._is_closed = True
        await self._here.aclose()
        if self._serving is None:
            return
        try:
            await asyncio.wait([self._serving])
        except asyncio.CancelledError:
            self._serving.cancel()
            raise
        await self.exit_error()  # an exception must not be reported as never retrieved


# Passes frames between two transports as they are, in both directions.

log: logging.Logger = logging.getLogger("accord.transports.memory")

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


async def relay(
    here: Transport, there: Transport, *, on_end: Callable[[Transport], None] | None = None
) -> Exception | None:
    """Connect two transports until one of them ends; close both, and return its error.

    A side that does not read makes the other side stop: nothing is buffered here. Frames are
    passed as the bytes that were received; line ends, which are white space in JSON, become
    spaces, because a pipe would pass on each line as a message of its own. Raises
    `TransportError` if one cannot start. `on_end` is called with the side that has ended first.
    """
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    try:
        await there.start(_Forwarder(there, here, ended, on_end))
        await here.start(_Forwarder(here, there, ended, on_end))
        return await ended
    finally:
        # What one side has written before its end is still sent to the other.
        await asyncio.gather(here.aclose(), there.aclose())


class _Forwarder:
    """Receives the frames of one transport and writes them to the other."""

    def __init__(
        self,
        source: Transport,
        target: Transport,
        ended: asyncio.Future[Exception | None],
        on_end: Callable[[Transport], None] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._ended = ended
        self._on_end = on_end

    def frames_received(self, frames: Sequence[Frame]) -> None:
        limit = self._target.frame_bytes
        if any(len(frame) > limit for frame in frames):
            for frame in frames:
                if len(frame) > limit:
                    self.frame_refused(limit, bytes(frame[:HEAD_BYTES]))
            frames = [frame for frame in frames if len(frame) <= limit]
        if any(b"\n" in frame or b"\r" in frame for frame in frames):
            frames = [frame.translate(_ONE_LINE) for frame in frames]
        self._target.write(frames)
        if self._target.congested:
            self._source.pause_reading()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """Fail the request that a frame over the limit sends or answers."""
        log.warning("! a frame of more than %d bytes was not passed on", limit)
        message = read_head(head)
        error = InvalidRequest(f"The frame exceeds {limit} bytes")
        if message.kind == "request" and message.id is not UNSET:
            body = {"code": error.code, "message": error.message}
            answer = {"jsonrpc": "2.0", "id": message.id, "error": body}
            self._source.write([lenient_json.dumps(answer)])
        elif message.kind == "response" and message.id is not UNSET:
            body = {"code": -32603, "message": f"The response exceeds {limit} bytes"}
            answer = {"jsonrpc": "2.0", "id": message.id, "error": body}
            self._target.write([lenient_json.dumps(answer)])

    def eof_received(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)
            if self._on_end is not None:
                self._on_end(self._source)

    def writable(self) -> None:
        """The source of this forwarder can be written to again: read what goes there."""
        self._target.resume_reading()
