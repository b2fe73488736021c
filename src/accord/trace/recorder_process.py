"""A process that writes a recording: what it receives is written, however the sender ends.

The sender does no work on a message except passing it on, so that messages are hardly delayed. It
writes blocks to a pipe: what was read from one side at one time. If this process is slower, the
pipe is full, and the sender waits.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from accord.jsonrpc.ndjson import LineReader
from accord.trace.packing import packer_of
from accord.trace.recording import HopRecorder, Recording
from accord.trace.records import Direction
from accord.transports.base import FRAME_BYTES

if sys.platform == "linux":
    from fcntl import fcntl

__all__ = ("RecorderProcess", "Settings")

_BLOCK = struct.Struct("<BdI")  # direction, time, size of what follows; size 0 is the end
_DIRECTIONS: tuple[Direction, Direction] = ("to_agent", "to_client")
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031  # of Linux
_NEW_GROUP = 0x200  # of Windows


class Settings(Struct, frozen=True):
    """What is recorded where; `zero` is the time of the blocks that is second 0."""

    path: str
    argv: list[str]
    redact: bool = True
    max_bytes: int | None = None
    zero: float = 0.0


class RecorderProcess:
    """Starts the process; its methods may be called in any thread."""

    def __init__(self, settings: Settings) -> None:
        """Create the file and start the process; raise `OSError` if that is not possible."""
        os.close(os.open(settings.path, os.O_WRONLY | os.O_CREAT, 0o600))
        packer_of(Path(settings.path))  # whether it is installed
        self._lock = threading.Lock()
        self._is_lost = False
        # Signals to the group of this process do not end it: it ends when the pipe does.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],  # nothing of the working directory is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=sys.platform != "win32",
            creationflags=_NEW_GROUP if sys.platform == "win32" else 0,
        )
        assert self._process.stdin is not None
        self._fd = self._process.stdin.fileno()
        if sys.platform == "linux":
            with suppress(OSError):
                fcntl(self._fd, _F_SETPIPE_SZ, _PIPE_BYTES)
        text = msgspec.json.encode(msgspec.structs.replace(settings, zero=time.perf_counter()))
        self._write(len(text).to_bytes(4, "little") + text)

    def data(self, direction: Direction, data: bytes) -> None:
        """Record what was read from one side."""
        head = _BLOCK.pack(_DIRECTIONS.index(direction), time.perf_counter(), len(data))
        self._write(head + data)

    def end(self, direction: Direction) -> None:
        """Record the end of the side that sends in this direction."""
        self._write(_BLOCK.pack(_DIRECTIONS.index(direction), time.perf_counter(), 0))

    def close(self) -> None:
        """Wait until everything is written."""
        assert self._process.stdin is not None
        with self._lock:
            self._is_lost = True  # the other direction may still send
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def _write(self, data: bytes) -> None:
        with self._lock:
            if self._is_lost:
                return
            try:
                written = os.write(self._fd, data)
                while written < len(data):
                    data = data[written:]
                    written = os.write(self._fd, data)
            except OSError:
                self._is_lost = True
                sys.stderr.write("accord trace: the recorder ended: the rest is lost\n")


class _Side:
    """One direction in the recording process."""

    def __init__(self, hop: HopRecorder, direction: Direction) -> None:
        self._hop = hop
        self._direction: Direction = direction
        self._lines = LineReader(FRAME_BYTES)

    def data(self, data: bytes, ts: float) -> None:
        if frames := self._lines.feed(data):
            self._hop.frames(self._direction, frames, ts=ts)
        if self._lines.refused:
            refused, self._lines.refused = self._lines.refused, []
            for head in refused:
                self._hop.refused(self._direction, head)

    def end(self, ts: float) -> None:
        if frames := self._lines.finish():
            self._hop.frames(self._direction, frames, ts=ts)
        self._hop.end(self._direction, ts=ts)


def _block(head: bytes) -> tuple[int, float, int]:
    """Return the direction, the time and the size of a block."""
    return _BLOCK.unpack(head)


def _main(pipe: IO[bytes]) -> int:
    size = int.from_bytes(pipe.read(4), "little")
    settings = msgspec.json.decode(pipe.read(size), type=Settings)
    age_s = time.perf_counter() - settings.zero
    with Recording(
        Path(settings.path),
        redact=settings.redact,
        max_bytes=settings.max_bytes,
        argv=settings.argv,
        age_s=age_s,
    ) as recording:
        hop = recording.hop()
        sides: list[_Side] = [_Side(hop, direction) for direction in _DIRECTIONS]
        while len(head := pipe.read(_BLOCK.size)) == _BLOCK.size:
            number, at, size = _block(head)
            ts = max(at - settings.zero, 0.0)
            if size == 0:
                sides[number].end(ts)
                continue
            # A block that was cut by the death of the sender is recorded up to the cut.
            sides[number].data(pipe.read(size), ts)
    return 0 if recording.error is None else 1


def _run() -> int | str:
    try:
        return _main(sys.stdin.buffer)
    except OSError as error:
        return f"accord trace: cannot write the recording: {error.strerror}"


if __name__ == "__main__":
    sys.exit(_run())
