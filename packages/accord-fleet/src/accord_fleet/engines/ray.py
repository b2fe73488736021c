"""Runs attempts on a Ray cluster: Ray places the slots, and each slot keeps its agents warm."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from functools import partial
from typing import Any

import msgspec

from accord_fleet.attempt import run_attempt
from accord_fleet.breaker import AgentBreaker, NoBreaker, NodeBreaker, is_start_failure
from accord_fleet.engines.ray_actors import (
    OpenAttempts,
    RayLimiter,
    RemoteSlot,
    RunAttempt,
    Slot,
    end_slots,
)
from accord_fleet.engines.ray_cluster import NAMESPACE, Cluster, Nodes
from accord_fleet.engines.ray_files import DriverFiles
from accord_fleet.engines.ray_slots import Items, Room, Waiting
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.machine import key_limits, open_machine, say_key_wait
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.types import (
    AgentSpec,
    AttemptFailed,
    ClusterLost,
    FailedPart,
    Failure,
    FleetError,
    Result,
    Status,
    Times,
    WorkItem,
)

_log = logging.getLogger("accord.fleet")

_OPEN_FAILURES = 8
_RETRY_S = 1.0
_RESULTS_AHEAD = 16
_START_NODES = 3  # on which an agent is started for an attempt until it is clear that it fails


@contextlib.asynccontextmanager
async def _open_attempts(
    settings: RunSettings, limiter: Limiter | None
) -> AsyncGenerator[RunAttempt]:
    """Open what the attempts in a slot share."""
    # The driver counts the starts on all nodes: a breaker here would know one node only, and end
    # with it the attempts of all.
    async with open_machine(settings, jobs=1, limiter=limiter, breaker=NoBreaker()) as machine:

        async def run(item: WorkItem, control: Control) -> Attempted:
            return await run_attempt(item, machine, control)

        yield run


class RayEngine:
    """Runs attempts on a Ray cluster.

    A slot is an actor that reserves the resources of its agent, runs one attempt at a time and
    keeps agents warm. Lost slots are replaced. An attempt that was lost with its slot is repeated
    only if its effects were limited to its workspace; otherwise its result is `lost`. An attempt
    whose agent does not start is repeated on another node, and a node on which one start after
    another fails is not used for a while.
    """

    def __init__(
        self,
        address: str = "ray",
        *,
        jobs: int = 8,
        name: str | None = None,
        retries: int = 3,
        open_attempts: OpenAttempts = _open_attempts,
    ) -> None:
        """`address`: `ray://host:10001`, `host:6379`, or `ray` for the cluster that `RAY_ADDRESS`
        names, or else a new one on this machine.

        `name` identifies the run in the cluster: attempts of an earlier process with the same name
        are ended before the first attempt starts. `retries` is how often an attempt is repeated
        after its slot was lost.
        """
        if jobs < 1:
            raise ValueError(f"jobs: expected a number of at least 1, got {jobs}")
        self.address: str = address
        self.jobs: int = jobs
        self.name: str = name or f"run-{secrets.token_hex(8)}"
        self.retries: int = retries
        self._open_attempts = open_attempts

    async def run(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        settings: RunSettings,
        control: Control,
    ) -> AsyncGenerator[Attempted, None]:
        """Yield the outcomes as they arrive; the caller closes the generator."""
        cpus = self.jobs * max([1.0, *(agent.resources.cpus for agent in settings.agents)])
        async with Cluster(self.address, cpus) as cluster:
            await end_slots(cluster, f"{self.name}/")
            run = _Run(self, cluster, settings, control, items, self._open_attempts)
            async with contextlib.aclosing(run.outcomes()) as outcomes:
                async for outcome in outcomes:
                    yield outcome


class _Cancelled(Exception):
    """Turns were cancelled before an attempt began."""


class _Server:
    """What serves attempts: room for a slot, and the slot."""

    def __init__(self, room: Room) -> None:
        self.slot: RemoteSlot | None = None
        self.avoids = ""
        """The node on which its last slot was of no use."""
        self._room = room
        self._was_open = False

    def opened(self) -> None:
        if not self._was_open:
            self._was_open = True
            self._room.opened()

    def leave(self) -> None:
        self._room.leave(was_open=self._was_open)


class _Run:
    """One run on a cluster."""

    def __init__(
        self,
        engine: RayEngine,
        cluster: Cluster,
        settings: RunSettings,
        control: Control,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        open_attempts: OpenAttempts,
    ) -> None:
        ray = cluster.ray
        self._engine = engine
        self._cluster = cluster
        self._control = control
        self._settings = ray.put(settings)
        self._open_attempts = ray.put(open_attempts)
        limits = key_limits(settings)
        self._limiter = RayLimiter.start(ray, limits) if limits else None
        self._say_key_wait = partial(say_key_wait, settings, control.wait)
        self._breaker = AgentBreaker(on_wait=control.wait)
        self._nodes = NodeBreaker(on_wait=control.wait)
        self._class = ray.remote(Slot)
        self._files = DriverFiles(ray)
        self._agents = {agent.name: agent for agent in settings.agents}
        self._kinds = {agent.name: _kind(agent) for agent in settings.agents}
        self._by_kind = {_kind(agent): agent for agent in settings.agents}
        needs = [agent.resources for agent in settings.agents]
        self._room = Room(engine.jobs, needs, lambda text: control.wait("cluster", text))
        self._see_nodes(cluster.nodes)
        cluster.on_nodes = self._see_nodes
        ahead = self._room.limit if len(self._by_kind) > 1 else 0
        self._items = Items(items, lambda item: self._kinds[item.agent], ahead)
        # The run's own token: names of slots are never reused, also not by a resumed run.
        self._prefix = f"{engine.name}/{secrets.token_hex(4)}"
        self._started = 0
        self._servers: set[asyncio.Task[None]] = set()
        self._running: dict[RemoteSlot, Waiting] = {}
        self._out: asyncio.Queue[tuple[Result, Any] | BaseException | None] = asyncio.Queue(
            _RESULTS_AHEAD
        )

    def _see_nodes(self, nodes: Nodes) -> None:
        self._nodes.update(nodes)
        held = self._nodes.held()
        self._room.update([has for node, has in nodes.items() if node not in held])

    async def outcomes(self) -> AsyncGenerator[Attempted, None]:
        tasks = [
            asyncio.ensure_future(work)
            for work in (
                self._open_slots(),
                self._follow_control(),
                self._follow_limiter(),
                self._finish(),
            )
        ]
        try:
            while (out := await self._out.get()) is not None:
                if isinstance(out, BaseException):
                    raise out
                result, trace = out
                yield Attempted(result, await self._trace(trace))
        finally:
            tasks += self._servers
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._files.aclose()

    async def _open_slots(self) -> None:
        """Open slots as there is room for them."""
        while not self._items.is_over:
            await self._room.enter()
            server = asyncio.ensure_future(self._serve())
            self._servers.add(server)
            server.add_done_callback(self._servers.discard)

    async def _finish(self) -> None:
        await self._items.over()
        await self._out.put(None)

    async def _follow_control(self) -> None:
        await self._control.stopping.wait()
        await self._items.stop()
        await self._control.cancelling.wait()
        await asyncio.gather(*(slot.cancel() for slot in self._running), return_exceptions=True)

    async def _follow_limiter(self) -> None:
        if self._limiter is not None:
            with contextlib.suppress(ClusterLost):  # others say so
                await self._limiter.follow(self._cluster, self._say_key_wait)

    async def _serve(self) -> None:
        """Be one of the slots, until it is lost or no attempts are left."""
        server = _Server(self._room)
        try:
            await self._serve_kinds(server)
        except ConnectionError as error:  # of Ray's client
            lost = f"cluster {self._cluster.label} was lost: {_first_line(error)}"
            await self._out.put(ClusterLost(lost))
        except Exception as error:  # noqa: BLE001  # the run ends with it
            await self._out.put(error)
        finally:
            if server.slot is not None:
                await server.slot.close()
            server.leave()

    async def _serve_kinds(self, server: _Server) -> None:
        while True:
            slot = server.slot
            if slot is not None and (
                slot.node in self._nodes.held()
                or self._items.needs_other_node(slot.kind, slot.node)
            ):
                server.avoids = slot.node
                await slot.close()
                server.slot = slot = None
            kind = await self._items.want(slot.kind if slot else None)
            if kind is None:
                return
            if slot is None or slot.kind != kind:
                slot = await self._open(server, kind)
            waiting = self._items.take(kind, slot.node)
            if waiting is not None and not await self._attempt(slot, waiting):
                await slot.kill()
                server.slot = None
                return

    async def _open(self, server: _Server, kind: str) -> RemoteSlot:
        """Open a slot of a kind instead of the one that the server has."""
        failures = 0
        try:
            while True:
                if server.slot is not None:
                    await server.slot.close()
                    server.slot = None
                try:
                    opens = partial(self._new_slot, kind, self._nodes.avoided(server.avoids))
                    server.slot = await self._cluster.call(opens)
                    await server.slot.open()
                except self._lost() as error:
                    failures += 1
                    if failures >= _OPEN_FAILURES:
                        raise self._cannot_open(error) from error
                    _log.debug("a slot was lost before it was ready: %s", error)
                    await asyncio.sleep(_RETRY_S)
                except self._cluster.ray.exceptions.RayError as error:
                    raise self._cannot_open(error) from error
                else:
                    server.opened()
                    return server.slot
        finally:
            self._items.opened(kind)

    def _new_slot(self, kind: str, avoided: frozenset[str]) -> RemoteSlot:
        agent = self._by_kind[kind]
        options: dict[str, Any] = {
            "name": f"{self._prefix}/{self._started}",
            "namespace": NAMESPACE,
            "num_cpus": agent.resources.cpus,
            "resources": agent.resources.custom,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 8,
        }
        if agent.resources.memory_bytes is not None:
            options["memory"] = agent.resources.memory_bytes
        if avoided:
            options["scheduling_strategy"] = self._cluster.elsewhere(avoided)
        if runtime_env := self._runtime_env(agent):
            options["runtime_env"] = runtime_env
        self._started += 1
        actor = self._class.options(**options).remote(
            self._settings, self._open_attempts, self._limiter, sys.executable
        )
        return RemoteSlot(self._cluster, kind, actor)

    def _runtime_env(self, agent: AgentSpec) -> dict[str, Any]:
        if not agent.packages:
            return {}
        base = self._cluster.runtime_env.get("pip", {}).get("packages", [])
        return {"pip": {"packages": [*base, *agent.packages], "pip_check": False}}

    async def _attempt(self, slot: RemoteSlot, waiting: Waiting) -> bool:
        """Run an attempt and pass on its result; return False if the slot was lost."""
        item = waiting.item
        agent = self._agents[item.agent]
        started = time.time()
        self._running[slot] = waiting
        out: tuple[Result, Any] | None = None
        is_alive, is_admitted = True, False
        try:
            await self._admit(agent)
            is_admitted, started = True, time.time()
            await self._control.begin(item)
            shipped = () if self._cluster.is_local else await self._files.needed(item.task)
            out = await slot.run(item, shipped)
        except self._lost() as error:
            is_alive = False
            if self._may_repeat(waiting):
                _log.debug("%s: lost with %s, repeated", item.key, slot.machine)
            else:
                message = f"{slot.machine} was lost: {_first_line(error)}"
                out = _outcome(item, "lost", "engine", message, started, slot.machine), None
        except _Cancelled:
            out = _outcome(item, "cancelled", None, "", started, slot.machine), None
        except AttemptFailed as error:
            out = _outcome(item, "failed", error.where, str(error), started, ""), None
        except self._cluster.ray.exceptions.RayTaskError as error:
            message = str(error.cause if error.cause is not None else error)
            out = _outcome(item, "failed", "engine", message, started, slot.machine), None
        finally:
            del self._running[slot]
        again = msgspec.structs.replace(waiting, losses=waiting.losses + 1)
        if (
            out is not None
            and is_admitted
            and (elsewhere := self._elsewhere(slot, waiting, out[0]))
        ):
            out, again = None, elsewhere
        if is_admitted:
            lost = _outcome(item, "lost", "engine", "", started, slot.machine)
            self._breaker.after(agent, lost if out is None else out[0])
        if out is None:
            await self._items.again(again)
        else:
            result, trace = out
            if waiting.failures:
                result = msgspec.structs.replace(result, repeated=waiting.failures)
            await self._out.put((result, trace))
            await self._items.done()
        return is_alive

    def _elsewhere(self, slot: RemoteSlot, waiting: Waiting, result: Result) -> Waiting | None:
        """Count the start of an agent; return the attempt if it is repeated on another node."""
        if not is_start_failure(result) or result.failure is None:
            if result.status not in ("cancelled", "lost"):
                self._nodes.succeeded(slot.node)
            return None
        if result.failure.where == "engine":  # it did not come to a start
            return None
        reason = result.failure.message
        self._nodes.failed(slot.node, slot.machine, reason)
        can_be = self._nodes.others(slot.node, waiting.failed_on)
        if not can_be or len(waiting.failed_on) + 1 >= _START_NODES or self._control.is_stopping:
            return None
        return msgspec.structs.replace(
            waiting,
            failed_on=(*waiting.failed_on, slot.node),
            failures=(*waiting.failures, f"{slot.machine}: {reason}"),
        )

    async def _admit(self, agent: AgentSpec) -> None:
        """Wait while the agent is held back; raise `_Cancelled` if turns are cancelled then."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as waiting:
                with self._control.on_cancel(lambda: waiting.reschedule(loop.time())):
                    await self._breaker.before(agent)
        except TimeoutError:
            raise _Cancelled from None

    def _may_repeat(self, waiting: Waiting) -> bool:
        is_inside = waiting.item.task.side_effects == "workspace"
        return is_inside and waiting.losses < self._engine.retries

    def _lost(self) -> tuple[type[Exception], ...]:
        """Return what Ray raises when an actor, its worker or its node is gone."""
        errors = self._cluster.ray.exceptions
        return (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )

    def _cannot_open(self, error: Exception) -> FleetError:
        # The reason of a failed runtime environment is below the traceback of Ray's agent.
        lines = str(getattr(error, "cause", None) or error).strip().splitlines()
        reason = lines[-1] if any("Traceback" in line for line in lines) else "\n".join(lines)
        return FleetError(f"cluster {self._cluster.label}: no slot could be opened: {reason}")

    async def _trace(self, ref: Any) -> bytes | None:
        if ref is None:
            return None
        try:
            return await self._cluster.wait_for(ref) or None
        except (self._cluster.ray.exceptions.RayError, ClusterLost) as error:
            # The attempt has reported, so it is not repeated.
            _log.warning("a recording was lost with its node: %s", _first_line(error))
            return None


def _kind(agent: AgentSpec) -> str:
    """Return what distinguishes the slots of an agent from those of others."""
    return msgspec.json.encode((agent.resources, agent.packages), order="deterministic").decode()


def _outcome(
    item: WorkItem,
    status: Status,
    where: FailedPart | None,
    message: str,
    started: float,
    machine: str,
) -> Result:
    return Result(
        task=item.task.id,
        agent=item.agent,
        attempt=item.attempt,
        status=status,
        failure=None if where is None else Failure(where=where, message=message),
        times=Times(started=started, wall_s=time.time() - started),
        machine=machine,
        tags=item.task.tags,
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
