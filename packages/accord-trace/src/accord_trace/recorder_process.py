"""A process that writes a recording: what it receives is written, however the sender ends.

The sender only copies a message and passes it on, so that messages are hardly delayed. It hands
over blocks: what was read from one side at one time. The process looks at them when a processor
has nothing else to do. Up to 64 MB wait; then the sender waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accord_trace.packing import packer_of
from accord_trace.recorder_blocks import packed_block
from accord_trace.records import Direction

if sys.platform == "linux":
    from accord_trace.block_ring import BlockRing
    from accord_trace.ring_reader import HURRY, WAKE


DIRECTIONS: tuple[Direction, Direction] = ("to_agent", "to_client")
_PROGRAM = "accord_trace.recorder_program"
_FULL_S = 0.005  # between two looks at a ring that is full
_NEW_GROUP = 0x200  # of Windows


class Settings(Struct, frozen=True):
    """What is recorded where; `zero` is the time of the blocks that is second 0.

    If `ring_fd` is None, the blocks come through stdin.
    """

    path: str
    argv: list[str]
    redact: bool = True
    max_bytes: int | None = None
    zero: float = 0.0
    ring_fd: int | None = None


class RecorderProcess:
    """Starts the process; its methods may be called in any thread."""

    def __init__(self, settings: Settings) -> None:
        """Create the file and start the process; raise `OSError` if that is not possible."""
        os.close(os.open(settings.path, os.O_WRONLY | os.O_CREAT, 0o600))
        packer_of(Path(settings.path))  # whether it is installed
        self._lock = threading.Lock()
        self._is_lost = False
        self._is_in_a_hurry = False
        self._ring: BlockRing | None = None
        shared: tuple[int, ...] = ()
        if sys.platform == "linux":
            self._ring = BlockRing()
            shared = (self._ring.fd,)
        # Signals to the group of this process do not end it: it ends when the pipe does. It stays
        # in the session, because Linux may share out the processors by session first.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM],  # nothing of the working directory is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=shared,
            process_group=0 if sys.platform != "win32" else None,
            creationflags=_NEW_GROUP if sys.platform == "win32" else 0,
        )
        assert self._process.stdin is not None
        self._fd = self._process.stdin.fileno()
        text = msgspec.json.encode(
            msgspec.structs.replace(
                settings, zero=time.perf_counter(), ring_fd=shared[0] if shared else None
            )
        )
        self._send(len(text).to_bytes(4, "little") + text)

    def data(self, direction: Direction, data: bytes) -> None:
        """Record what was read from one side."""
        with self._lock:
            self._hand_over(DIRECTIONS.index(direction), time.perf_counter(), data)

    def end(self, direction: Direction) -> None:
        """Record the end of the side that sends in this direction."""
        self.data(direction, b"")

    def close(self) -> None:
        """Wait until everything is written."""
        assert self._process.stdin is not None
        with self._lock:
            is_lost, self._is_lost = self._is_lost, True  # the other direction may still send
            with suppress(OSError):
                self._process.stdin.close()
        if self._process.wait() < 0 and not is_lost:
            self._lost()

    def _hand_over(self, direction: int, ts: float, data: bytes) -> None:
        ring = self._ring
        if self._is_lost:
            return
        if ring is None:
            self._send(packed_block(direction, ts, data))
            return
        while not ring.write(direction, ts, data):
            if self._process.poll() is not None:
                self._lost()
                return
            time.sleep(_FULL_S)
        if ring.is_asleep():
            self._send(WAKE)
        if ring.is_more_than_half_full is not self._is_in_a_hurry:
            self._is_in_a_hurry = not self._is_in_a_hurry
            if self._is_in_a_hurry:
                self._send(HURRY)

    def _send(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                data = data[written:]
                written = os.write(self._fd, data)
        except OSError:
            self._lost()

    def _lost(self) -> None:
        self._is_lost = True
        sys.stderr.write("accord trace: the recorder ended: the rest is lost\n")
