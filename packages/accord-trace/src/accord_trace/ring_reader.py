"""Reads the blocks of a ring when a processor of this machine has nothing else to do."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from accord_trace.block_ring import Block, BlockRing

WAKE = b"w"  # a block was written after the reader fell asleep
HURRY = b"h"  # the ring is half full
_STEP_BYTES = 128 * 1024  # that are recorded before the processor is given away
_PAUSE_S = 0.01  # messages of a dialogue are recorded together
_SIGNALS = 4096


class RingReader:
    """Hands blocks to `record`, in a thread that has a processor only if nobody else wants it.

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
        blocks = self._ring.blocks(_STEP_BYTES)
        if blocks:
            self._record(blocks)
            self._ring.release()
        return bool(blocks)
