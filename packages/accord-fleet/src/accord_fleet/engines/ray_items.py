"""The attempts of a run that wait for a slot: read as there is room, sorted by what they need."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable

import msgspec

from accord_fleet.types.task import WorkItem


class Waiting(msgspec.Struct, frozen=True):
    """An attempt that waits, how often its slot was lost, and where its agent did not start."""

    item: WorkItem
    losses: int = 0
    failed_on: tuple[str, ...] = ()
    """The ids of the nodes."""
    failures: tuple[str, ...] = ()
    """What failed on each, with the name of its machine."""


class Items:
    """Hands out attempts to slots. A slot serves items of one kind.

    An item is read when a slot wants one, and every slot that opens has an item: no more slots open
    than there are items. If there are several kinds, up to `ahead` items are read ahead, so that
    slots rarely change their kind.
    """

    def __init__(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        kind_of: Callable[[WorkItem], str],
        ahead: int,
    ) -> None:
        self._items: AsyncIterator[WorkItem] = _iterate(items)
        self._kind_of = kind_of
        self._ahead = ahead
        self._waiting: dict[str, deque[Waiting]] = {}
        self._opening: dict[str, int] = {}
        self._running = 0
        self._is_read = False
        self._is_stopped = False
        self._reading = asyncio.Lock()
        self._changed = asyncio.Condition()

    async def want(self, kind: str | None) -> str | None:
        """Return the kind that a slot should serve, or None when the run has ended.

        `kind` is what the slot serves now. Another kind is reserved until `opened`.
        """
        while True:
            await self._read()
            if self.is_over:
                await self._wake()
                return None
            if (wanted := self._choose(kind)) is not None:
                return wanted
            async with self._changed:
                if not self.is_over:
                    await self._changed.wait()

    def _choose(self, kind: str | None) -> str | None:
        if self._is_stopped:
            return None
        if kind is not None and self._waiting.get(kind):
            return kind
        spare = {k: len(q) - self._opening.get(k, 0) for k, q in self._waiting.items()}
        best = max(spare, key=lambda k: spare[k], default=None)
        if best is None or spare[best] <= 0:
            return None
        self._opening[best] = self._opening.get(best, 0) + 1
        return best

    def opened(self, kind: str) -> None:
        """End the reservation of a kind that `want` returned to a slot that did not serve it."""
        self._opening[kind] -= 1

    def take(self, kind: str, node: str = "") -> Waiting | None:
        """Take an item of a kind that has not failed on this node; `done` or `again` follows.

        None: others were faster, or all that wait have failed there (`needs_other_node`).
        """
        if self._is_stopped:
            return None
        queue = self._waiting.get(kind, deque())
        for number, waiting in enumerate(queue):
            if node not in waiting.failed_on:
                del queue[number]
                self._running += 1
                return waiting
        return None

    def needs_other_node(self, kind: str, node: str) -> bool:
        """Return whether items of a kind wait, and all of them have failed on this node."""
        queue = self._waiting.get(kind)
        return bool(queue) and all(node in waiting.failed_on for waiting in queue)

    async def done(self) -> None:
        """Count an attempt that has its result."""
        self._running -= 1
        if self.is_over:  # nothing else changes for slots that wait, which may be thousands
            await self._wake()

    async def again(self, waiting: Waiting) -> None:
        """Put an attempt first that did not come to its result: its slot was lost, or failed."""
        self._running -= 1
        self._waiting.setdefault(self._kind_of(waiting.item), deque()).appendleft(waiting)
        await self._wake()

    async def stop(self) -> None:
        """Hand out no more items."""
        self._is_stopped = True
        await self._wake()

    async def over(self) -> None:
        """Wait until every item has its result, or, after `stop`, every item that was taken."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_over)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left for any slot."""
        rest = not self._is_stopped and (not self._is_read or any(self._waiting.values()))
        return not self._running and not rest

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _read(self) -> None:
        async with self._reading:
            while not self._is_read and not self._is_stopped and self._has_room():
                try:
                    item = await anext(self._items)
                except StopAsyncIteration:
                    self._is_read = True
                else:
                    self._waiting.setdefault(self._kind_of(item), deque()).append(Waiting(item))

    def _has_room(self) -> bool:
        waiting = sum(map(len, self._waiting.values()))
        return waiting <= sum(self._opening.values()) + self._ahead


async def _iterate(
    items: Iterable[WorkItem] | AsyncIterable[WorkItem],
) -> AsyncIterator[WorkItem]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
