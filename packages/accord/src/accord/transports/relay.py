"""Passes frames between two transports as they are, in both directions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import UNSET

from accord.errors import InvalidRequest
from accord.jsonrpc.message import HEAD_BYTES, read_head
from accord.text import lenient_json
from accord.transports.base import Frame, Transport

log: logging.Logger = logging.getLogger("accord.transports.relay")

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
