"""Asks the head of a cluster which nodes it has, and notices when the head is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from accord_fleet.engines.ray_lost import ClusterLost
from accord_fleet.engines.ray_thread import CallThread

Nodes = Mapping[str, Mapping[str, float]]
"""The resources of each node that is alive, by the id of the node."""

_EVERY_S = 2.0
# Counted by questions: a process that was stopped for an hour has missed one answer.
_ANSWER_S = 5.0
_MISSED = 3


async def watch_head(ray: Any, label: str, on_nodes: Callable[[Nodes], None]) -> None:
    """Call the function with the nodes every few seconds.

    Raise `ClusterLost` when the head has not answered for about 15 seconds. That is before Ray
    itself ends the process, after 60.
    """
    # Not a thread of the loop: a question to a dead head hangs, and the loop would wait for it.
    thread = CallThread("accord-fleet-head")
    asked: asyncio.Future[Nodes] | None = None
    missed = 0
    reason = ""
    try:
        while True:
            if asked is None:
                asked = asyncio.wrap_future(thread.submit(lambda: living_nodes(ray)))
            await asyncio.wait([asked], timeout=_ANSWER_S)
            if asked.done() and asked.exception() is None:
                on_nodes(asked.result())
                missed, asked = 0, None
                await asyncio.sleep(_EVERY_S)
                continue
            missed += 1
            if asked.done():
                reason = f" ({next(iter(str(asked.exception()).splitlines()), '')})"
                asked = None
            if missed == _MISSED:
                raise ClusterLost(f"cluster {label} was lost: its head does not answer{reason}")
            if asked is None:
                await asyncio.sleep(_ANSWER_S)
    finally:
        if asked is not None:
            asked.cancel()
        thread.end()


def living_nodes(ray: Any) -> Nodes:
    """Return the resources of the nodes that are alive; asks the head."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
