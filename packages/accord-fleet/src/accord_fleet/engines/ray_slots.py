"""The driver's side of the slots of a run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import msgspec

from accord_fleet.engines.ray_cluster import NAMESPACE, Cluster, Versions
from accord_fleet.errors import FleetError
from accord_fleet.types.result import Result
from accord_fleet.types.task import WorkItem

_log = logging.getLogger("accord.fleet")

_CLOSE_S = 15.0


class RemoteSlot:
    """A slot in the cluster, which may still wait for its node."""

    def __init__(self, cluster: Cluster, kind: str, actor: Any) -> None:
        self.kind = kind
        self.node = ""
        self.machine = ""
        self._cluster = cluster
        self._actor = actor
        self._is_open = False

    async def open(self) -> None:
        """Wait until a node has room for it, and check that node's versions."""
        node, machine, versions = await self._get(self._actor.open.remote)
        self._is_open = True
        self._cluster.check(machine, Versions(*msgspec.structs.astuple(versions)))
        self.node, self.machine = node, machine

    async def run(self, item: WorkItem, shipped: object) -> tuple[Result, Any]:
        """Return the result, and a reference to the recording."""
        run = self._actor.run.options(num_returns=2)
        result, trace = await self._cluster.submit(lambda: run.remote(item, shipped))
        return await self._cluster.wait_for(result), trace

    async def cancel(self) -> None:
        """Cancel the turns of its attempt."""
        await self._cluster.submit(self._actor.cancel.remote)

    async def close(self) -> None:
        """End the agents, then the actor, however long they take."""
        if self._is_open:
            await self.end_agents()
        await self.kill()

    async def end_agents(self) -> None:
        """Let it end its agents and remove its files."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_S):
                await self._get(self._actor.close.remote)

    async def kill(self) -> None:
        """End the actor at once."""
        with contextlib.suppress(Exception):
            await self._cluster.call(lambda: self._cluster.ray.kill(self._actor, no_restart=True))

    async def _get(self, method: Any) -> Any:
        return await self._cluster.wait_for(await self._cluster.submit(method))


async def end_slots(cluster: Cluster, prefix: str) -> None:
    """End the slots of an earlier process of the same run, and wait until they are gone."""
    ray = cluster.ray

    def names() -> list[str]:
        listed = ray.util.list_named_actors(all_namespaces=True)
        return [
            entry["name"]
            for entry in listed
            if entry["namespace"] == NAMESPACE and entry["name"].startswith(prefix)
        ]

    async def end(name: str) -> None:
        with contextlib.suppress(ValueError):
            slot = RemoteSlot(
                cluster, "", await cluster.call(lambda: ray.get_actor(name, NAMESPACE))
            )
            await slot.end_agents()
            await slot.kill()

    old = await cluster.call(names)
    if not old:
        return
    _log.info("%s slots of an earlier process are ended", len(old))
    await asyncio.gather(*map(end, old))
    try:
        async with asyncio.timeout(_CLOSE_S):
            while await cluster.call(names):  # noqa: ASYNC110  # Ray has no event for it
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise FleetError(
            f"cluster {cluster.label}: attempts of an earlier process of this run do not end"
        ) from None
