"""One direction of a tap: bytes pass unchanged, and their lines are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from accord.jsonrpc.ndjson import LineReader
from accord.trace.recording import HopRecorder
from accord.trace.records import Direction
from accord.transports.base import FRAME_BYTES, Frame
from accord_inspector.passages import Passages, is_of_injected

__all__ = ("ByteDirection",)


class _Source(Protocol):
    def pause_reading(self) -> None: ...


class _Target(Protocol):
    @property
    def congested(self) -> bool: ...

    def write_bytes(self, data: bytes) -> None: ...


class ByteDirection:
    """Passes what one side writes to the other side, and records its lines after that.

    Bytes are passed as soon as they arrive. While a passage is set, or a response to a request
    that was sent by hand is expected, lines are passed whole; their bytes are the same.
    """

    def __init__(
        self,
        direction: Direction,
        source: _Source,
        target: _Target,
        hop: HopRecorder,
        passages: Passages,
        written: Callable[[], None],
    ) -> None:
        self.expected: int = 0  # responses to requests that were sent by hand
        self._direction: Direction = direction
        self._source = source
        self._target = target
        self._hop = hop
        self._passages = passages
        self._written = written
        self._lines = LineReader(FRAME_BYTES)
        self._held = bytearray()  # the beginning of a line that was not passed yet
        self._is_in_line = False  # whether the beginning of a line was passed
        self._waiting: list[bytes] = []  # sent by hand, after this line

    def data(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._direction in self._passages or self.expected:
            self._pass_lines(data)
        else:
            self._pass_bytes(data)
        if self._target.congested:
            self._source.pause_reading()

    def inject(self, frame: bytes) -> None:
        """Send a line by hand, as soon as the present line has ended."""
        self._hop.frame(self._direction, frame)
        self._written()
        self._waiting.append(frame + b"\n")
        if not self._is_in_line:
            self._write_waiting()

    def end(self, reason: str = "") -> None:
        """Pass the last line if it has no line end, and record the end."""
        self._target.write_bytes(bytes(self._held))
        self._held.clear()
        self._record(self._lines.finish())
        self._hop.end(self._direction, reason)
        self._written()

    def _pass_bytes(self, data: bytes) -> None:
        if self._held:
            self._target.write_bytes(bytes(self._held))
            self._held.clear()
        if self._waiting and b"\n" in data:
            end = data.rindex(b"\n") + 1
            self._target.write_bytes(data[:end])
            self._write_waiting()
            rest = data[end:]
            if rest:
                self._target.write_bytes(rest)
        else:
            self._target.write_bytes(data)
        self._is_in_line = not data.endswith(b"\n")
        self._record(self._lines.feed(data))

    def _pass_lines(self, data: bytes) -> None:
        if self._is_in_line:
            end = data.find(b"\n") + 1 or len(data)
            self._pass_bytes(data[:end])
            data = data[end:]
            if not data:
                return
        if b"\n" in data:
            self._held = bytearray(data[data.rindex(b"\n") + 1 :])
        else:
            self._held += data
        frames = self._lines.feed(data)
        self._record(frames)
        kept: list[Frame] = []
        for frame in frames:
            if self.expected and is_of_injected(frame):
                self.expected -= 1
            else:
                kept.append(frame)
        passage = self._passages.get(self._direction)
        if not kept:
            return
        if passage is None:
            self._deliver(kept)
        else:
            passage(kept, self._deliver)

    def _deliver(self, frames: Sequence[Frame]) -> None:
        self._target.write_bytes(b"\n".join((*frames, b"")))

    def _write_waiting(self) -> None:
        for line in self._waiting:
            self._target.write_bytes(line)
        self._waiting.clear()

    def _record(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._hop.frame(self._direction, frame)
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            self._hop.refused(self._direction, head)
        if frames or refused:
            self._written()
