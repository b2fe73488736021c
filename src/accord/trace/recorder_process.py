"""A process that writes a recording: what it receives is written, however the sender ends.

The sender does no work on a message except passing it on, so that messages are hardly delayed. It
writes blocks to a pipe: what was read from one side at one time. If this process is slower, up to
64 MB wait in its memory; then the sender waits.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
_QUEUE_BYTES = 64 * 1024 * 1024  # that wait in memory
_FEW_BYTES = 64 * 1024
_PAUSE_S = 0.002
_NICENESS = 10
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


class _Blocks:
    """Reads blocks from the pipe; a burst waits in memory, so that its sender need not wait."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._rest = b""  # of a block that is incomplete
        self._is_open = True
        self._is_ready: Callable[[], bool] = lambda: False
        if sys.platform != "win32":
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            self._is_ready = lambda: bool(poll.poll(0))

    def next(self) -> list[tuple[int, float, bytes]] | None:
        """Return the next blocks: the number of their direction, time, data; None at the end.

        After the death of the sender the last block may be shorter than it was.
        """
        while self._is_open and self._waiting_bytes < _QUEUE_BYTES:
            if self._waiting and not self._is_ready():
                break
            data = os.read(self._fd, _PIPE_BYTES)
            self._is_open = bool(data)
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        if not self._waiting:
            return None
        data = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        if 0 < len(data) < _FEW_BYTES and not self._waiting:
            time.sleep(_PAUSE_S)  # messages of a dialogue are written together
        return self._split(data)

    def _split(self, data: bytes) -> list[tuple[int, float, bytes]]:
        is_last = not data
        data, at = self._rest + data, 0
        blocks: list[tuple[int, float, bytes]] = []
        while len(data) - at >= _BLOCK.size:
            number, ts, size = _block(data, at)
            end = at + _BLOCK.size + size
            if end > len(data) and not is_last:
                break
            if size == 0 or end - size < len(data):
                blocks.append((number, ts, data[at + _BLOCK.size : end]))
            at = end
        self._rest = data[at:]
        return blocks


class _Side:
    """One direction in the recording process."""

    def __init__(self, hop: HopRecorder, direction: Direction) -> None:
        self._hop = hop
        self._direction: Direction = direction
        self._lines = LineReader(FRAME_BYTES)

    def data(self, data: bytes, ts: float) -> None:
        if frames := self._lines.feed(data):
            self._hop.recording.queue(self._hop, self._direction, frames, ts)
        if self._lines.refused:
            refused, self._lines.refused = self._lines.refused, []
            for head in refused:
                self._hop.refused(self._direction, head)

    def end(self, ts: float) -> None:
        if frames := self._lines.finish():
            self._hop.frames(self._direction, frames, ts=ts)
        self._hop.end(self._direction, ts=ts)


def _block(data: bytes, at: int) -> tuple[int, float, int]:
    """Return the direction, the time and the size of a block."""
    return _BLOCK.unpack_from(data, at)


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := os.read(fd, size - len(data))):
        data += more
    return data


def _main(fd: int) -> int:
    size = int.from_bytes(_exactly(fd, 4), "little")
    settings = msgspec.json.decode(_exactly(fd, size), type=Settings)
    age_s = time.perf_counter() - settings.zero
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # the client and the agent come first
    with Recording(
        Path(settings.path),
        redact=settings.redact,
        max_bytes=settings.max_bytes,
        argv=settings.argv,
        age_s=age_s,
    ) as recording:
        hop = recording.hop()
        sides: list[_Side] = [_Side(hop, direction) for direction in _DIRECTIONS]
        reader = _Blocks(fd)
        while (blocks := reader.next()) is not None:
            for number, at, data in blocks:
                ts = max(at - settings.zero, 0.0)
                if data:
                    sides[number].data(data, ts)
                else:
                    sides[number].end(ts)
            recording.flush()
    return 0 if recording.error is None else 1


def _run() -> int | str:
    try:
        return _main(sys.stdin.fileno())
    except OSError as error:
        return f"accord trace: cannot write the recording: {error.strerror}"


if __name__ == "__main__":
    sys.exit(_run())
