"""How long a model is waited for, and how often it is asked again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct

__all__ = ("RetryPolicy",)


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Durations in seconds. `wait` lets them pass.

    `stall_s` is how long nothing may come, in an answer or before it. `longest_s` is the
    longest wait that a provider may ask for.
    """

    max_attempts: int = 5
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    stall_timeout_s: float = 180.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempts: int, retry_after_s: float | None) -> float | None:
        """Return how long to wait after so many tries; None when it is time to give up."""
        if attempts >= self.max_attempts or (
            retry_after_s is not None and retry_after_s > self.max_delay_s
        ):
            return None
        if retry_after_s is not None:
            return retry_after_s
        # Some randomness, so that those who were refused together do not come back together.
        return min(self.max_delay_s, self.first_delay_s * 2 ** (attempts - 1)) * random.uniform(
            0.75, 1.25
        )
