"""How long a model is waited for, and how often it is asked again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct

__all__ = ("Patience",)


class Patience(Struct, frozen=True, kw_only=True):
    """Durations in seconds. `wait` lets them pass.

    `stall_s` is how long nothing may come, in an answer or before it. `longest_s` is the
    longest wait that a provider may ask for.
    """

    tries: int = 5
    first_s: float = 1.0
    longest_s: float = 60.0
    stall_s: float = 180.0
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, tried: int, asked: float | None) -> float | None:
        """Return how long to wait after so many tries; None when it is time to give up."""
        if tried >= self.tries or (asked is not None and asked > self.longest_s):
            return None
        if asked is not None:
            return asked
        # Some randomness, so that those who were refused together do not come back together.
        return min(self.longest_s, self.first_s * 2 ** (tried - 1)) * random.uniform(0.75, 1.25)
