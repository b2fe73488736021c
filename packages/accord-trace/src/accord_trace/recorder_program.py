"""The process that `accord trace record` starts to write a recording."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from accord.jsonrpc.message import LineReader
from accord.transports.base import FRAME_BYTES
from accord_trace.recorder_process import DIRECTIONS, PipeBlocks, Settings
from accord_trace.recording import HopRecorder, Recording
from accord_trace.records import Direction

if sys.platform == "linux":
    from accord_trace.ring import BlockRing, RingReader


_NICENESS = 10


class _Side:
    """One direction in the recording process."""

    def __init__(self, hop: HopRecorder, direction: Direction) -> None:
        self._hop = hop
        self._direction: Direction = direction
        self._lines = LineReader(FRAME_BYTES)

    def data(self, data: bytes, ts: float) -> None:
        if frames := self._lines.feed(data):
            hop, direction = self._hop, self._direction
            hop.recording.queue([(hop, ts, direction, frame) for frame in frames])
        if self._lines.refused:
            refused, self._lines.refused = self._lines.refused, []
            for head in refused:
                self._hop.refused(self._direction, head)

    def end(self, ts: float) -> None:
        if frames := self._lines.finish():
            self._hop.frames(self._direction, frames, ts=ts)
        self._hop.end(self._direction, ts=ts)


class _Blocks:
    """Records blocks; `zero` is the time that is second 0."""

    def __init__(self, recording: Recording, zero: float) -> None:
        hop = recording.hop()
        self._recording = recording
        self._sides = [_Side(hop, direction) for direction in DIRECTIONS]
        self._zero = zero

    def record(self, blocks: Iterable[tuple[int, float, bytes]]) -> None:
        """Write blocks: the number of their direction, time, data, or nothing at the end."""
        for number, at, data in blocks:
            ts = max(at - self._zero, 0.0)
            if data:
                self._sides[number].data(data, ts)
            else:
                self._sides[number].end(ts)
        self._recording.flush()


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := os.read(fd, size - len(data))):
        data += more
    return data


def _main(fd: int) -> int:
    size = int.from_bytes(_exactly(fd, 4), "little")
    settings = msgspec.json.decode(_exactly(fd, size), type=Settings)
    with Recording(
        Path(settings.path),
        redact=settings.redact,
        max_bytes=settings.max_bytes,
        argv=settings.argv,
        age_s=time.perf_counter() - settings.zero,
    ) as recording:
        blocks = _Blocks(recording, settings.zero)
        if sys.platform == "linux" and settings.ring_fd is not None:
            RingReader(BlockRing(settings.ring_fd), blocks.record).run(fd)
        else:
            _read_pipe(fd, blocks)
    return 0 if recording.error is None else 1


def _read_pipe(fd: int, blocks: _Blocks) -> None:
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # the client and the agent come first
    reader = PipeBlocks(fd)
    while (found := reader.next()) is not None:
        blocks.record(found)


def run() -> int | str:
    """Record what comes through stdin; return the exit status, or why it fails."""
    try:
        return _main(sys.stdin.fileno())
    except OSError as error:
        return f"accord trace: cannot write the recording: {error.strerror}"


if __name__ == "__main__":
    sys.exit(run())
