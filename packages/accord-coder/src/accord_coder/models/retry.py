"""The retry policy for requests to models."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from msgspec import Struct


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """Limits of retries, in seconds; `sleep` waits.

    `stall_timeout_s` is the longest time without a piece of the answer. `max_delay_s` is the
    longest delay that a provider can request.
    """

    max_attempts: int = 5
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    stall_timeout_s: float = 180.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempts: int, retry_after_s: float | None) -> float | None:
        """Return the delay after so many attempts; None to stop retrying."""
        if attempts >= self.max_attempts or (
            retry_after_s is not None and retry_after_s > self.max_delay_s
        ):
            return None
        if retry_after_s is not None:
            return retry_after_s
        # Jitter, so that clients that were rejected together do not retry together.
        return min(self.max_delay_s, self.first_delay_s * 2 ** (attempts - 1)) * random.uniform(
            0.75, 1.25
        )
