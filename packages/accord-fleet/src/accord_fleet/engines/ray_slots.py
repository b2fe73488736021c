"""Which attempts of a run wait for a slot, and how many slots the run opens.

Attempts are read as there is room, and sorted by what they need. A run opens the slots that its
cluster has room for, and a few that wait for more.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping

import msgspec

from accord_fleet.types import Resources, WorkItem


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


# Slots without room: they begin as soon as a node is added, and let an autoscaler add one.
_WAITING = 8
# Slots that start at the same time: each starts a process of Python on its node.
_OPENING_PER_NODE = 2


class Room:
    """Lets as many slots be opened as there are jobs, and as the cluster has room for."""

    def __init__(
        self,
        jobs: int,
        needs: Iterable[Resources],
        on_change: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`on_change` gets a sentence while the cluster has no room for all jobs, and then None."""
        self._jobs = jobs
        self._needs = tuple(needs)
        self._on_change = on_change
        self._said: str | None = None
        self._nodes = 0
        self._fitting = 0
        self._entered = 0
        self._opening = 0
        self._changed = asyncio.Event()

    @property
    def limit(self) -> int:
        """The greatest number of slots, with those that wait for more nodes."""
        return min(self._jobs, self._fitting + _WAITING)

    def update(self, nodes: Collection[Mapping[str, float]]) -> None:
        """Use the resources of these nodes from now on."""
        self._nodes = len(nodes)
        self._fitting = max((_fitting(nodes, need, self._jobs) for need in self._needs), default=0)
        text = None
        if self._fitting < self._jobs:
            has = "1 node has" if self._nodes == 1 else f"{self._nodes:,} nodes have"
            text = f"{has} room for {self._fitting:,} of {self._jobs:,} at the same time"
        if text != self._said:
            self._said = text
            self._on_change(text)
        self._changed.set()

    async def enter(self) -> None:
        """Wait until one more slot may be opened; `leave` follows. One task calls this."""
        while not self._has_room():
            self._changed.clear()
            await self._changed.wait()
        self._entered += 1
        self._opening += 1

    def opened(self) -> None:
        """Count a slot as open."""
        self._opening -= 1
        self._changed.set()

    def leave(self, *, was_open: bool) -> None:
        """Count a slot as gone."""
        self._entered -= 1
        self._opening -= not was_open
        self._changed.set()

    def _has_room(self) -> bool:
        opening = max(_WAITING, _OPENING_PER_NODE * self._nodes)
        return self._entered < self.limit and self._opening < opening


def _fitting(nodes: Collection[Mapping[str, float]], need: Resources, most: int) -> int:
    """Return how many slots fit on the nodes, each with the same needs; at most `most`."""
    needed = {"CPU": need.cpus, "memory": need.memory_bytes or 0, **need.custom}
    amounts = {name: amount for name, amount in needed.items() if amount > 0}
    if not amounts:
        return most
    fitting = sum(
        # Ray counts in ten thousandths.
        min(math.floor(node.get(name, 0) / amount + 1e-4) for name, amount in amounts.items())
        for node in nodes
    )
    return min(most, fitting)
