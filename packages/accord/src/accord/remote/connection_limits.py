"""The bounds on the connections of a server, and the connections that are open."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager

from msgspec import Struct

from accord.remote.access import Principal, Refusal
from accord.remote.network_transport import NetworkTransport
from accord.transports.registry import PING_S


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a server accepts (T12), and how long it keeps idle ones.

    A connection without a message and without a running turn for `idle_s` seconds is closed;
    0 means never. A WebSocket client is sent a ping every `ping_interval_s` seconds, 0 means
    never, and is disconnected if nothing arrives in `ping_timeout_s` seconds after it; 0 means
    that nothing needs to arrive (R-WS-14). Other ASGI servers than `accord serve` have settings
    of their own for pings.
    """

    connections: int = 1000
    per_principal: int = 1000
    starts_per_minute: int = 600
    idle_s: float = 86_400.0
    ping_interval_s: float = PING_S
    ping_timeout_s: float = PING_S


class OpenConnections:
    """The connections that are open; `clock` returns seconds."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits
        self._clock = clock
        self._transports: dict[NetworkTransport, Principal] = {}
        self._per_principal: Counter[Principal] = Counter()
        self._starts: deque[float] = deque()  # in the last minute

    def refusal(self, principal: Principal) -> Refusal | None:
        """Return why another connection is refused, None if it is not."""
        limits = self._limits
        if self.full:
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
    def opened(self, principal: Principal, transport: NetworkTransport) -> Generator[None]:
        """Count a connection during the block."""
        self.add(principal, transport)
        try:
            yield
        finally:
            self.remove(transport)

    def add(self, principal: Principal, transport: NetworkTransport) -> None:
        """Count a connection."""
        self._starts.append(self._now())
        self._transports[transport] = principal
        self._per_principal[principal] += 1

    def remove(self, transport: NetworkTransport) -> None:
        """Count a connection as closed."""
        principal = self._transports.pop(transport)
        self._per_principal[principal] -= 1
        if not self._per_principal[principal]:
            del self._per_principal[principal]

    @property
    def full(self) -> bool:
        """Whether every further connection is refused."""
        return len(self._transports) >= self._limits.connections

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()
