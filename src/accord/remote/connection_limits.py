"""The bounds on the connections of a server, and the connections that are open."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec import Struct

from accord.remote.access import Principal, Refusal

__all__ = ("ConnectionLimits", "OpenConnection", "OpenConnections")


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a server accepts (T12)."""

    connections: int = 1000
    per_principal: int = 1000
    starts_per_minute: int = 600


class OpenConnection(Protocol):
    """What the connections of all transports have in common."""

    close_code: int
    close_reason: str

    async def aclose(self) -> None:
        """Close it, in bounded time."""


class OpenConnections:
    """The connections that are open; `clock` returns seconds."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits
        self._clock = clock
        self._transports: dict[OpenConnection, Principal] = {}
        self._per_principal: Counter[Principal] = Counter()
        self._starts: deque[float] = deque()  # in the last minute
        self._changed = asyncio.Event()

    def refusal(self, principal: Principal) -> Refusal | None:
        """Return why another connection is refused, None if it is not."""
        limits = self._limits
        if len(self._transports) >= limits.connections:
            return Refusal(503, "Too many connections", (("Retry-After", "5"),))
        if self._per_principal[principal] >= limits.per_principal:
            return Refusal(429, "Too many connections", (("Retry-After", "5"),))
        now = self._now()
        while self._starts and now - self._starts[0] >= 60:
            self._starts.popleft()
        if len(self._starts) >= limits.starts_per_minute:
            wait_s = math.ceil(60 - (now - self._starts[0]))
            retry = (("Retry-After", str(max(wait_s, 1))),)
            return Refusal(429, "Too many connections in one minute", retry)
        return None

    @contextmanager
    def opened(self, principal: Principal, transport: OpenConnection) -> Generator[None]:
        """Count a connection during the block."""
        self.add(principal, transport)
        try:
            yield
        finally:
            self.remove(transport)

    def add(self, principal: Principal, transport: OpenConnection) -> None:
        """Count a connection."""
        self._starts.append(self._now())
        self._transports[transport] = principal
        self._per_principal[principal] += 1

    def remove(self, transport: OpenConnection) -> None:
        """Count a connection as closed."""
        principal = self._transports.pop(transport)
        self._per_principal[principal] -= 1
        if not self._per_principal[principal]:
            del self._per_principal[principal]
        self._changed.set()

    def transports(self) -> list[OpenConnection]:
        """Return the transports of the open connections."""
        return list(self._transports)

    async def wait_idle(self, timeout_s: float) -> None:
        """Wait until no connection is open, for at most `timeout_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._transports:
                    self._changed.clear()
                    await self._changed.wait()

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()
