"""Blocks in a pipe: what was read from one side at one time, as `accord trace record` sends it."""

from __future__ import annotations

import os
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Callable

_HEAD = struct.Struct("<BdI")  # direction, time, size of what follows; size 0 is the end
_READ_BYTES = 1024 * 1024
_QUEUE_BYTES = 64 * 1024 * 1024  # that wait in memory
_FEW_BYTES = 64 * 1024
_PAUSE_S = 0.002


def packed_block(direction: int, ts: float, data: bytes) -> bytes:
    """Return a block as it is written to the pipe."""
    return _HEAD.pack(direction, ts, len(data)) + data


class PipeBlocks:
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
            data = os.read(self._fd, _READ_BYTES)
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
        while len(data) - at >= _HEAD.size:
            number, ts, size = _head(data, at)
            end = at + _HEAD.size + size
            if end > len(data) and not is_last:
                break
            if size == 0 or end - size < len(data):
                blocks.append((number, ts, data[at + _HEAD.size : end]))
            at = end
        self._rest = data[at:]
        return blocks


def _head(data: bytes, at: int) -> tuple[int, float, int]:
    """Return the direction, the time and the size of a block."""
    return _HEAD.unpack_from(data, at)
