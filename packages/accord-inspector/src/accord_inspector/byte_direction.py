"""One direction of a tap: bytes pass unchanged, and their lines are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from accord.jsonrpc.message import LineReader
from accord.transports.base import FRAME_BYTES, Frame
from accord_inspector.faults import Faults
from accord_inspector.faults_path import FaultPath
from accord_inspector.passed_bytes import PassedBytes
from accord_inspector.sent_by_hand import is_of_injected
from accord_trace.recording import HopRecorder
from accord_trace.records import Direction


class _Source(Protocol):
    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Target(Protocol):
    @property
    def congested(self) -> bool: ...

    def write_bytes(self, data: bytes) -> None: ...


class ByteDirection:
    """Passes what one side writes to the other side, and records its lines after that.

    Bytes are passed as soon as they arrive, and recorded by `passed`, which both directions have.
    While a fault is on, or a response to a request that was sent by hand is expected, lines are
    passed whole; without faults their bytes are the same. `cut` is called when a fault ends the
    connection, `numbers` are those of the recording's rows.
    """

    def __init__(
        self,
        direction: Direction,
        source: _Source,
        target: _Target,
        hop: HopRecorder,
        faults: Faults,
        numbers: Iterator[int],
        passed: PassedBytes,
        *,
        cut: Callable[[], None],
    ) -> None:
        self.expected: int = 0  # responses to requests that were sent by hand
        self._direction: Direction = direction
        self._source = source
        self._target = target
        self._hop = hop
        self._numbers = numbers
        self._passed = passed
        self._path = FaultPath(
            faults, direction, self._deliver, cut=cut, on_free=self.resume_reading
        )
        self._lines = LineReader(FRAME_BYTES)
        self._held = bytearray()  # the beginning of a line that was not passed yet
        self._is_in_line = False  # whether the beginning of a line was passed
        self._waiting: list[bytes] = []  # sent by hand, after this line

    def data(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._path.is_active or self.expected:
            self._pass_lines(data)
        else:
            self._pass_bytes(data)
        if self._is_congested:
            self._source.pause_reading()

    def resume_reading(self) -> None:
        """Read the source again, unless what was read still waits."""
        if not self._is_congested:
            self._source.resume_reading()

    def inject(self, frame: bytes) -> int:
        """Send a line by hand, as soon as the present line has ended; return its number."""
        number = self._record_by_hand(frame)
        if self._path.is_active and not self._is_in_line:
            self._path.pass_frames([frame], number)
        else:
            self._waiting.append(frame + b"\n")
            if not self._is_in_line:
                self._write_waiting()
        return number

    def inject_bytes(self, data: bytes) -> int | None:
        """Send bytes by hand now, as they are, past the faults; return their number."""
        number = self._record_by_hand(data) if data.strip() else None
        self._target.write_bytes(data)
        return number

    def end(self, reason: str = "") -> None:
        """Pass the last line if it has no line end, and record the end."""
        self._path.flush()
        self._target.write_bytes(bytes(self._held))
        self._held.clear()
        self._passed.flush()
        self._record(self._lines.finish())
        next(self._numbers)
        self._hop.end(self._direction, reason)
        self._passed.written()

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
        self._passed.add(self._record_passed, data)

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
        self._passed.flush()
        frames = self._lines.feed(data)
        numbers = self._record(frames)
        self._passed.written()
        for frame, number in zip(frames, numbers, strict=True):
            if self.expected and is_of_injected(frame):
                self.expected -= 1
            else:
                self._path.pass_frames([frame], number)

    def _deliver(self, frames: Sequence[Frame]) -> None:
        self._target.write_bytes(b"\n".join((*frames, b"")))

    def _write_waiting(self) -> None:
        for line in self._waiting:
            self._target.write_bytes(line)
        self._waiting.clear()

    def _record_passed(self, data: bytes, ts: float) -> None:
        self._record(self._lines.feed(data), ts)

    def _record_by_hand(self, data: bytes) -> int:
        """Record what is sent by hand, after what was passed before; return its number."""
        self._passed.flush()
        number = next(self._numbers)
        self._hop.frames(self._direction, [data])
        self._passed.written()
        return number

    def _record(self, frames: Sequence[Frame], ts: float | None = None) -> list[int | None]:
        """Record frames of now, or of second `ts`; return their numbers, None for blank ones."""
        numbers = [next(self._numbers) if frame.strip() else None for frame in frames]
        recording = self._hop.recording
        at = recording.now() if ts is None else ts
        recording.queue([(self._hop, at, self._direction, frame) for frame in frames])
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            next(self._numbers)
            self._hop.refused(self._direction, head)
        return numbers

    @property
    def _is_congested(self) -> bool:
        return self._target.congested or self._path.congested
