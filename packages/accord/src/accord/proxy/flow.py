"""Back-pressure of a chain: a connection whose peer does not read stops the source of the messages.

The conductor sees the whole chain, so nothing needs to pile up from hop to hop.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Pausable(Protocol):
    """What can stop reading: a transport."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Pauses:
    """Pauses a transport while there is a reason to."""

    __slots__ = ("_reasons", "_transport")

    def __init__(self, transport: Pausable) -> None:
        self._transport = transport
        self._reasons: set[object] = set()

    def add(self, reason: object) -> None:
        """Do not read until this reason is removed."""
        if not self._reasons:
            self._transport.pause_reading()
        self._reasons.add(reason)

    def remove(self, reason: object) -> None:
        """Continue reading if this was the last reason."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons:
                self._transport.resume_reading()


class Flow:
    """One direction of a chain: its source is not read while one of its sinks is full."""

    def __init__(self) -> None:
        self.source: Pauses | None = None
        self._full: set[object] = set()
        self._waiters: list[asyncio.Future[None]] = []

    def block(self, sink: object) -> None:
        """Stop the source until `unblock` is called with the same sink."""
        if sink not in self._full:
            self._full.add(sink)
            if self.source is not None:
                self.source.add(self)

    def unblock(self, sink: object) -> None:
        """Let the source continue if no other sink is full."""
        if sink in self._full:
            self._full.discard(sink)
            if not self._full:
                if self.source is not None:
                    self.source.remove(self)
                self._wake()

    async def wait_for_room(self) -> None:
        """Return when no sink is full; let other tasks run in any case."""
        if not self._full:
            await asyncio.sleep(0)
        while self._full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
