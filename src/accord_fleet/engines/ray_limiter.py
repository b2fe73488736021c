"""The limiter of model requests of a whole cluster: one actor, which all slots ask."""

from __future__ import annotations

import asyncio
from typing import Any

from accord_fleet.engines.ray_cluster import ray_module
from accord_fleet.gateway.limiter import KeyLimits, LocalLimiter

__all__ = ("RayLimiter",)


class RayLimiter:
    """A `Limiter` that asks the actor; it can be sent to the nodes."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    @classmethod
    def start(cls, ray: Any, limits: dict[str, KeyLimits]) -> RayLimiter:
        """Start the actor with the limits of each key, by name."""
        # It only waits: many requests are in it at the same time. If its node is lost, Ray starts
        # it elsewhere, with full allowances, and asks again.
        actor = ray.remote(LocalLimiter).options(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=10_000
        )
        return cls(actor.remote(limits))

    async def acquire(self, key: str, caller: str, tokens: int) -> None:
        """Wait until a request with about so many tokens may be sent; callers take turns."""
        await self._ask("acquire", key, caller, tokens)

    async def settle(self, key: str, tokens: int) -> None:
        """Correct an estimate: so many more tokens (or fewer, if negative) were used."""
        await self._ask("settle", key, tokens)

    async def pause(self, key: str, seconds: float) -> None:
        """Let no request of a key start for some seconds."""
        await self._ask("pause", key, seconds)

    async def _ask(self, method: str, *arguments: object) -> None:
        ref = getattr(self._actor, method).remote(*arguments)
        try:
            await ref
        except asyncio.CancelledError:
            ray_module().cancel(ref)  # otherwise it would keep its turn
            raise
