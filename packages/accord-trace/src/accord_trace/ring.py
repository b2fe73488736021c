"""Blocks of bytes in memory that two processes of Linux have: one writes, the other one reads.

The reader works when a processor has nothing else to do.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

_BYTES = 64 * 1024 * 1024
_CONTROL_BYTES = mmap.PAGESIZE
_WARM_BYTES = 1024 * 1024  # that are used again while the reader keeps up
_WRITTEN, _READ, _START, _IS_ASLEEP = range(4)  # the numbers in the first page
_WRITE_STEP_BYTES = 64 * 1024  # that are written at least before the writer looks at the reader
_HEAD = struct.Struct("<BdI")  # direction, time, size of the data that follow
_HEAD_BYTES = _HEAD.size
_pack_into = _HEAD.pack_into
_SKIP = 255  # in place of a direction: the next block is at the start of the memory

Block: TypeAlias = tuple[int, float, bytes]  # the number of its direction, time, data


class BlockRing:
    """64 MB in which blocks wait that were written and not yet read.

    No call of the system is needed to write or to read. What was written stays if the writer dies.
    `write` and `is_asleep` are for one thread at a time in one process, the other methods for one
    thread at a time in the other process, which makes its ring from `fd`.
    """

    def __init__(self, fd: int | None = None) -> None:
        if fd is None:
            fd = os.memfd_create("accord-trace")
            os.ftruncate(fd, _CONTROL_BYTES + _BYTES)
        self.fd: int = fd
        self._memory = mmap.mmap(fd, _CONTROL_BYTES + _BYTES)
        self._numbers = memoryview(self._memory)[:_CONTROL_BYTES].cast("Q")
        self._data = memoryview(self._memory)[_CONTROL_BYTES:]
        self._barrier = threading.Lock()
        self._next = 0  # how far `blocks` has read
        self._written: int = 0  # what `write` has put into the first page
        self._at: int = 0  # where `write` continues
        self._limit: int = 0  # until where it has room for certain

    @property
    def waiting_bytes(self) -> int:
        """The size of what waits."""
        return self._numbers[_WRITTEN] - self._numbers[_READ]

    @property
    def is_more_than_half_full(self) -> bool:
        """Whether the reader should hurry."""
        return self.waiting_bytes > _BYTES // 2

    def write(self, direction: int, time: float, data: bytes) -> bool:
        """Append a block; return False if there is no room for it at present."""
        size = _HEAD_BYTES + len(data)
        if self._at + size > self._limit and not self._make_room(size):
            return False
        at = self._at
        self._at = end = at + size
        _pack_into(self._data, at, direction, time, len(data))
        self._data[at + _HEAD_BYTES : end] = data
        self._order()
        self._written += size
        self._numbers[_WRITTEN] = self._written
        self._order()
        return True

    def _make_room(self, size: int) -> bool:
        """Look how far the reader is, to write a block and more; return False if it has no room."""
        read, at = self._numbers[_READ], self._at
        if self._written == read and at > _WARM_BYTES:
            self._numbers[_START] = self._written
            self._at = self._limit = at = 0
        skipped = _BYTES - at if at + size > _BYTES else 0
        free = _BYTES - (self._written - read)
        if skipped + size > free:
            return False
        if at + size > _BYTES:
            if skipped:
                self._data[at] = _SKIP
                self._written += skipped  # the reader sees it with the block
            at = 0
        room = max(_WARM_BYTES - at, _WRITE_STEP_BYTES, size)
        self._at, self._limit = at, at + min(free - skipped, _BYTES - at, room)
        return True

    def is_asleep(self) -> bool:
        """Return whether the reader must be told that a block was written; only once."""
        if not self._numbers[_IS_ASLEEP]:
            return False
        self._numbers[_IS_ASLEEP] = 0
        return True

    def blocks(self, limit_bytes: int) -> list[Block]:
        """Return the next blocks, until they have so many bytes; `release` them afterwards."""
        blocks: list[Block] = []
        at, written = self._numbers[_READ], self._numbers[_WRITTEN]
        self._order()
        limit = at + limit_bytes
        while at < min(written, limit):
            start = self._place(at)
            if self._data[start] == _SKIP:
                at += _BYTES - start
                continue
            direction, time, size = _head(self._data, start)
            start += _HEAD_BYTES
            blocks.append((direction, time, bytes(self._data[start : start + size])))
            at += _HEAD_BYTES + size
        self._next = at
        return blocks

    def release(self) -> None:
        """Give back the room of what `blocks` has returned."""
        self._order()
        self._numbers[_READ] = self._next

    def fall_asleep(self) -> bool:
        """Ask to be woken for the next block; return False if there is one already."""
        self._numbers[_IS_ASLEEP] = 1
        self._order()
        if not self.waiting_bytes:
            return True
        self._numbers[_IS_ASLEEP] = 0
        return False

    def _place(self, position: int) -> int:
        return (position - self._numbers[_START]) % _BYTES

    def _order(self) -> None:
        """Let the other process see what was written before, before what is written after."""
        with self._barrier:
            pass
        with self._barrier:
            pass


def _head(data: memoryview, at: int) -> tuple[int, float, int]:
    return _HEAD.unpack_from(data, at)


WAKE = b"w"  # a block was written after the reader fell asleep
HURRY = b"h"  # the ring is half full
_READ_STEP_BYTES = 128 * 1024  # that are recorded before the processor is given away
_PAUSE_S = 0.01  # messages of a dialogue are recorded together
_SIGNALS = 4096


class RingReader:
    """Hands blocks to `record`, in a thread of the lowest priority.

    So the reader does not delay those who write, unless the ring fills: then it is emptied with the
    priority of other programs. So is what waits at the end.
    """

    def __init__(self, ring: BlockRing, record: Callable[[list[Block]], None]) -> None:
        self._ring = ring
        self._record = record
        self._turn = threading.Lock()
        self._is_awake = threading.Event()

    def run(self, fd: int) -> None:
        """Record until the end of the pipe `fd`, which has `WAKE` and `HURRY`."""
        threading.Thread(target=self._run_when_idle, daemon=True).start()
        while signals := os.read(fd, _SIGNALS):
            self._is_awake.set()
            if HURRY in signals:
                with self._turn:
                    while self._ring.is_more_than_half_full and self._step():
                        pass
        with self._turn:
            while self._step():
                pass

    def _run_when_idle(self) -> None:
        if sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread
        while True:
            while self._step_in_turn():
                pass
            time.sleep(_PAUSE_S)
            if self._falls_asleep():
                self._is_awake.wait()
                self._is_awake.clear()

    def _step_in_turn(self) -> bool:
        with self._turn:
            return self._step()

    def _falls_asleep(self) -> bool:
        with self._turn:
            return self._ring.fall_asleep()

    def _step(self) -> bool:
        """Record the next blocks; return whether there were some."""
        blocks = self._ring.blocks(_READ_STEP_BYTES)
        if blocks:
            self._record(blocks)
            self._ring.release()
        return bool(blocks)
