"""Short file system calls in the event loop's thread, as long as the file system is fast.

Handing a call to a thread takes longer than most of these calls. A file system that is slow, such
as a network share, would stop all sessions, so after a slow call threads make the next ones. A call
can also be slow because the machine is busy, so this lasts 50 ms at first, and twice as long after
every further slow call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SLOW_S = 0.01  # a call that takes longer is slow
# The time until the next call in place.
MIN_RETRY_S = 0.05
MAX_RETRY_S = 60.0

P = ParamSpec("P")
T = TypeVar("T")


class InPlace:
    """The calls of one owner; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow_until = 0.0
        self._retry_s = MIN_RETRY_S

    @property
    def is_slow(self) -> bool:
        """Whether a call was slow, so that a thread makes the next one."""
        return self._clock() < self._slow_until

    async def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of a function that blocks, called here or in a thread."""
        if self.is_slow:
            return await asyncio.to_thread(function, *args, **named)
        return self.call_here(function, *args, **named)

    def call_here(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of a function that blocks, and note whether it was slow."""
        start = self._clock()
        try:
            return function(*args, **named)
        finally:
            end = self._clock()
            if end - start > SLOW_S:
                self._slow_until = end + self._retry_s
                self._retry_s = min(2 * self._retry_s, MAX_RETRY_S)
            elif self._retry_s > MIN_RETRY_S:
                self._retry_s = max(self._retry_s / 2, MIN_RETRY_S)
