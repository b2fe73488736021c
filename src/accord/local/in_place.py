"""Short file system calls in the event loop's thread, as long as the file system is fast.

Handing a call to a thread takes longer than most of these calls. A file system that is slow, such
as a network share, would stop all sessions, so after one slow call a thread makes the next ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ("RETRY_S", "SLOW_S", "InPlace")

SLOW_S = 0.01  # a call that takes longer is slow
RETRY_S = 60.0  # until the next call in place

P = ParamSpec("P")
T = TypeVar("T")


class InPlace:
    """The calls of one owner; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow_until = 0.0

    async def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of a function that blocks."""
        start = self._clock()
        if start < self._slow_until:
            return await asyncio.to_thread(function, *args, **named)
        try:
            return function(*args, **named)
        finally:
            end = self._clock()
            if end - start > SLOW_S:
                self._slow_until = end + RETRY_S
