"""The limiter of model requests of a whole cluster: one actor, which all slots ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any

from accord_fleet.engines.ray_cluster import Cluster, ray_module
from accord_fleet.gateway.limiter import KeyLimits, KeyWait, LocalLimiter

_ANSWER_S = 15.0
_AGAIN_S = 2.0

_log = logging.getLogger("accord.fleet")

_State = tuple[str, int]
"""Which actor, and how often its waits have changed: a lost actor is replaced."""


class SharedLimiter(LocalLimiter):
    """The limiter in its actor: the driver asks it which keys wait."""

    def __init__(self, limits: dict[str, KeyLimits]) -> None:
        super().__init__(limits, self._say)
        self._waits: dict[str, KeyWait] = {}
        self._state: _State = secrets.token_hex(8), 0
        self._changed = asyncio.Event()

    async def waits(self, seen: _State | None) -> tuple[_State, dict[str, KeyWait]]:
        """Return the keys that wait, as soon as they are not those of the state `seen`.

        Returns the same ones after a while: a call that does not end would keep the actor.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                while self._state == seen:
                    self._changed.clear()
                    await self._changed.wait()
        return self._state, self._waits

    def _say(self, key: str, wait: KeyWait | None) -> None:
        if wait is None:
            self._waits.pop(key, None)
        else:
            self._waits[key] = wait
        self._state = self._state[0], self._state[1] + 1
        self._changed.set()


class RayLimiter:
    """A `Limiter` that asks the actor; it can be sent to the nodes."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    @classmethod
    def start(cls, ray: Any, limits: dict[str, KeyLimits]) -> RayLimiter:
        """Start the actor with the limits of each key, by name."""
        # It only waits: many requests are in it at the same time. If its node is lost, Ray starts
        # it elsewhere, with full allowances, and asks again.
        actor = ray.remote(SharedLimiter).options(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=10_000
        )
        return cls(actor.remote(limits))

    async def follow(
        self, cluster: Cluster, on_wait: Callable[[str, KeyWait | None], None]
    ) -> None:
        """Call the function when a key begins to wait, and with None when it no longer does.

        While the actor cannot be asked, no key is known to wait. Only the driver calls this, until
        it is cancelled or the cluster is lost, which raises `ClusterLost`.
        """
        errors = (cluster.ray.exceptions.RayError, ConnectionError, TimeoutError)
        while True:
            try:
                await self._follow(cluster, on_wait)
            except errors as error:
                _log.debug("the waits of keys are not known: %s", error)
            await asyncio.sleep(_AGAIN_S)

    async def _follow(
        self, cluster: Cluster, on_wait: Callable[[str, KeyWait | None], None]
    ) -> None:
        state: _State | None = None
        waits: dict[str, KeyWait] = {}
        try:
            while True:
                ref = await cluster.submit(lambda seen=state: self._actor.waits.remote(seen))
                before = waits
                state, waits = await cluster.wait_for(ref)
                for key, wait in waits.items():
                    if before.get(key) != wait:
                        on_wait(key, wait)
                for key in before.keys() - waits.keys():
                    on_wait(key, None)
        finally:
            for key in waits:
                on_wait(key, None)

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
