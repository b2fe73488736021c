"""How many slots a run opens: what its cluster has room for, and a few that wait for more."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping

from accord_fleet.types.agent import Resources

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
