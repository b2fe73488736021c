"""Shares one thread between the keys of the user and the updates of agents: keys come first.

After a key, no update is taken over or drawn until the key has been drawn. Reading continues.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

SLICE_S = 0.004  # of updates; then the screen and the keys have a turn
KEY_S = 0.05  # after a key, until its effect is on the screen
HELD_S = 0.25  # that updates wait at most while keys come without a pause;
OPEN_S = 0.05  # then they have this long
PAUSE_S = 2.0  # without a key: the user reads or thinks
COLLECT_S = 30.0  # between two collections of all garbage
YOUNG = 2_000  # new objects between two collections of the young ones;
NEVER = 1_000_000_000  # older ones are collected in pauses only


class Pace:
    """Says when updates are taken over and drawn, so that keys come first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key_s = float("-inf")
        self._held_since_s: float | None = None
        self._open_end_s: float | None = None  # while keys come without a pause
        self._slice_end_s = 0.0

    def note_key(self) -> None:
        """Let updates wait until a key has been drawn; this may be called in any thread."""
        self._key_s = self._clock()
        self._slice_end_s = 0.0

    def wait_s(self) -> float:
        """Return how long updates have to wait for keys now; 0.0 if they need not."""
        now = self._clock()
        left = self._key_s + KEY_S - now
        if left <= 0:
            self._held_since_s = self._open_end_s = None
            return 0.0
        if self._held_since_s is None:
            self._held_since_s = now
        held_s = now - self._held_since_s
        if held_s < HELD_S:
            return min(left, HELD_S - held_s)
        if self._open_end_s is None:
            self._open_end_s = now + OPEN_S
        if now < self._open_end_s:
            return 0.0
        self._held_since_s, self._open_end_s = now, None
        return left

    @property
    def idle_s(self) -> float:
        """How long ago the last key was pressed."""
        return self._clock() - self._key_s

    @property
    def is_slice_over(self) -> bool:
        """Whether updates have been taken over for long enough."""
        return self._clock() >= self._slice_end_s

    async def rest(self) -> None:
        """Let keys and the screen have a turn."""
        wait_s = self.wait_s()
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self.wait_s()
            if wait_s <= 0:  # else a key has come since
                break
        self._slice_end_s = self._clock() + SLICE_S


async def collect_in_pauses(pace: Pace) -> None:
    """Collect garbage while the user types nothing, until the task is cancelled.

    A collection of all objects of a long conversation takes a tenth of a second, and Python would
    do it whenever many objects have been made: in the middle of a word. What the program has at
    its start is never garbage.
    """
    before, wait_s = gc.get_threshold(), COLLECT_S
    gc.freeze()
    gc.set_threshold(YOUNG, NEVER, NEVER)
    try:
        while True:
            await asyncio.sleep(wait_s)
            is_pause = pace.idle_s >= PAUSE_S
            wait_s = COLLECT_S if is_pause else PAUSE_S
            if is_pause:
                gc.collect()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
