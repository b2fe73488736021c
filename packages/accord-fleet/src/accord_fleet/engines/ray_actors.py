"""What runs on the nodes of a Ray cluster, and the driver's side of it.

A `Slot` is an actor that runs attempts, one at a time; the driver has a `RemoteSlot`. The limiter
of model requests is one actor for the whole cluster, which all slots ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec

from accord_fleet.engines.ray_cluster import (
    NAMESPACE,
    Cluster,
    Versions,
    ray_module,
    this_process,
    with_python,
)
from accord_fleet.engines.ray_files import NodeFiles, ShippedFiles
from accord_fleet.gateway.limiter import KeyLimits, KeyWait, Limiter, LocalLimiter
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.scratch import remove_abandoned, scratch_folder
from accord_fleet.types import FleetError, Result, WorkItem

RunAttempt = Callable[[WorkItem, Control], Awaitable[Attempted]]
OpenAttempts = Callable[[RunSettings, Limiter | None], AbstractAsyncContextManager[RunAttempt]]
"""Opens what attempts in this process share; the limiter is that of the cluster."""


class Slot:
    """Runs attempts on a node; its agents stay warm between them."""

    def __init__(
        self,
        settings: RunSettings,
        open_attempts: OpenAttempts,
        limiter: Limiter | None,
        python: str,
    ) -> None:
        """`python` is the program of the driver; agents that it would run, run in that of here."""
        self._settings = with_python(settings, python, sys.executable)
        self._limiter = limiter
        self._open_attempts = open_attempts
        self._stack = contextlib.AsyncExitStack()
        self._control = Control()
        self._run: RunAttempt | None = None
        self._files: NodeFiles | None = None

    async def open(self) -> tuple[str, str, Versions]:
        """Prepare for attempts. Return node id, name of the machine and versions."""
        # Ray starts its processes with SIGINT blocked, and agents would inherit this.
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._files = NodeFiles(Path(tempfile.gettempdir()))
        # Files of a process that is killed are removed by the next slot or run on the node.
        await asyncio.to_thread(remove_abandoned)
        tempfile.tempdir = str(self._stack.enter_context(scratch_folder()))
        self._run = await self._stack.enter_async_context(
            self._open_attempts(self._settings, self._limiter)
        )
        node: str = ray_module().get_runtime_context().get_node_id()
        return node, self._files.machine, this_process()

    async def run(self, item: WorkItem, shipped: tuple[ShippedFiles, ...]) -> tuple[Result, bytes]:
        """Run one attempt; return its result and its recording."""
        assert self._run is not None, "open() comes first"
        assert self._files is not None
        item = await self._files.unpacked(item, shipped)
        result, trace = await self._run(item, self._control)
        if isinstance(trace, Path):
            data = trace.read_bytes()
            trace.unlink(missing_ok=True)
        else:
            data = trace or b""
        return result, data

    async def cancel(self) -> None:
        """Cancel the turns of the running attempt; its result is `cancelled`."""
        self._control.cancel()

    async def close(self) -> None:
        """End the agents and remove the files of this slot."""
        self._control.cancel()
        await self._stack.aclose()


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


_ANSWER_S = 15.0
_AGAIN_S = 2.0


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
