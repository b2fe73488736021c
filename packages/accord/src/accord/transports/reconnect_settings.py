"""How a lost connection is established again, and what is reported about it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

STABLE_S = 1.0  # a connection that was lost earlier does not make the waits short again


class ConnectionChange(Struct, frozen=True, kw_only=True):
    """The connection was lost (`reconnecting`), established again (`connected`), or given up.

    Each attempt is reported before the wait for it. `error` is the loss, or why the last attempt
    failed.
    """

    state: Literal["reconnecting", "connected", "lost"]
    error: Exception | None = None
    attempt: int = 0
    wait_s: float = 0.0


class Reconnect(Struct, frozen=True, kw_only=True):
    """How a lost connection is established again.

    The client waits up to `wait_s` before the first attempt, twice as long before each further
    one, and at most `max_wait_s`; the actual waits are random, from the half to the whole. After
    `attempts` it gives up. `on_change` is called with each change of the connection.
    """

    attempts: int = 10
    wait_s: float = 0.5
    max_wait_s: float = 30.0
    on_change: Callable[[ConnectionChange], None] | None = None

    def wait_before(self, attempt: int) -> float:
        """Return how long to wait before an attempt, in seconds; the first one is 1."""
        longest = min(self.wait_s * 2.0 ** min(attempt - 1, 32), self.max_wait_s)
        return longest * random.uniform(0.5, 1.0)  # spreads the clients of a server


class Waits:
    """The waits of one client. They start again once a connection has lasted for a while.

    Otherwise a server that fails after each connection would be asked without a pause.
    """

    def __init__(self, settings: Reconnect, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._count = 0
        self._since = clock()

    def connected(self) -> None:
        """Note that a connection was established."""
        self._since = self._clock()

    def lost(self) -> None:
        """Note that it was lost."""
        if self._clock() - self._since >= STABLE_S:
            self._count = 0

    def next(self) -> float:
        """Return how long to wait before the next attempt, in seconds."""
        self._count += 1
        return self._settings.wait_before(self._count)
