"""Nodes that are killed and added during a run: what is repeated, and how many slots there are."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from accord_fleet import AgentSpec, RayEngine, Resources, Result, Task, Times
from accord_fleet.engines.ray_actors import RayLimiter
from accord_fleet.engines.ray_cluster import Cluster, living_nodes
from accord_fleet.gateway.limiter import KeyLimits
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.types import WorkItem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def settings(cpus: float) -> RunSettings:
    agent = AgentSpec(name="a", command=("unused",), resources=Resources(cpus=cpus))
    return RunSettings(agents=(agent,))


def attempts_in(folder: Path) -> Any:
    """Return what opens the attempts of a slot: each is written down, and waits for a file `go`.

    Ray sends these functions by value: the nodes have no module of tests.
    """

    @contextlib.asynccontextmanager
    async def open_attempts(_: RunSettings, __: Any) -> AsyncIterator[Any]:
        import ray

        node = ray.get_runtime_context().get_node_id()

        async def run(item: WorkItem, _: Control) -> Attempted:
            with (folder / "starts").open("a") as file:
                file.write(f"{item.task.id} {node} {os.getpid()}\n")
            while not (folder / "go").exists():
                await asyncio.sleep(0.02)
            name = f"{node} {os.getpid()}"
            result = Result(
                task=item.task.id,
                agent=item.agent,
                status="finished",
                machine=name,
                times=Times(started=0),
            )
            return Attempted(result, None)

        yield run

    return open_attempts


def starts(folder: Path) -> list[list[str]]:
    file = folder / "starts"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def test_a_killed_node_repeats_only_what_has_no_effects_outside(
    ray_cluster: Any, tmp_path: Path
) -> None:
    engine = RayEngine(ray_cluster.address, jobs=8, open_attempts=attempts_in(tmp_path))
    tasks = [
        Task(id=f"t{n}", prompts=("x",), side_effects=("outside", "workspace")[n % 2])
        for n in range(12)
    ]
    outside = {task.id for task in tasks if task.side_effects == "outside"}
    work = [WorkItem(task=task, agent="a") for task in tasks]

    async def kill_node() -> None:
        async with asyncio.timeout(90):
            while len(starts(tmp_path)) < 8:
                await asyncio.sleep(0.1)
            await asyncio.to_thread(ray_cluster.kill_node)
            while sum(psutil.pid_exists(int(pid)) for _, _, pid in starts(tmp_path)[:8]) > 4:
                await asyncio.sleep(0.1)
        (tmp_path / "go").touch()

    killing = asyncio.create_task(kill_node())
    arrived: dict[str, Result] = {}
    async with contextlib.aclosing(engine.run(work, settings(0.5), Control())) as outcomes:
        async for outcome in outcomes:
            assert outcome.result.task not in arrived
            arrived[outcome.result.task] = outcome.result
    await killing
    await asyncio.to_thread(ray_cluster.add_node)

    assert len(arrived) == 12
    started = starts(tmp_path)
    alive = {result.machine.split()[0] for result in arrived.values() if result.machine}
    on_killed = {task for task, node, _ in started if node not in alive}
    assert len(on_killed) == 4
    lost = {task for task, result in arrived.items() if result.status == "lost"}
    assert lost == on_killed & outside
    counts = Counter(task for task, *_ in started)
    assert {task for task, count in counts.items() if count > 1} == on_killed - outside
    assert {result.status for task, result in arrived.items() if task not in lost} == {"finished"}


async def test_many_jobs_open_as_many_slots_as_the_cluster_has_room_for(
    ray_cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    engine = RayEngine(ray_cluster.address, jobs=2000, open_attempts=attempts_in(tmp_path))
    control = Control()
    said: list[tuple[str, str | None]] = []
    control.on_wait = lambda what, why: said.append((what, why))
    slots: set[str] = set()
    actors = 0

    def work() -> Iterator[WorkItem]:
        number = 0
        while (len(slots) < 6 or len(said) < 2) and number < 100_000:
            yield WorkItem(task=Task(id=f"t{number}", prompts=("x",)), agent="a")
            number += 1

    def count_actors() -> int:
        import ray

        names: Any = ray.util.list_named_actors(all_namespaces=True)
        return sum(entry["name"].startswith(engine.name) for entry in names)

    adding: asyncio.Task[None] | None = None
    async with contextlib.aclosing(engine.run(work(), settings(1), control)) as outcomes:
        arrived = 0
        async for outcome in outcomes:
            arrived += 1
            slots.add(outcome.result.machine)
            if arrived % 50 == 0:
                actors = max(actors, await asyncio.to_thread(count_actors))
            if adding is None and len(slots) == 4 and actors:
                adding = asyncio.create_task(asyncio.to_thread(ray_cluster.add_node))
    assert adding is not None
    await adding
    await asyncio.to_thread(ray_cluster.kill_node)
    assert len(slots) == 6  # two on each of three nodes
    assert 4 < actors <= 6 + 8
    assert said == [
        ("cluster", "2 nodes have room for 4 of 2,000 at the same time"),
        ("cluster", "3 nodes have room for 6 of 2,000 at the same time"),
    ]
    assert len(starts(tmp_path)) == arrived


async def test_a_limiter_that_is_lost_with_its_node_is_replaced(ray_cluster: Any) -> None:
    """Requests that waited are asked again elsewhere: the new limiter has full allowances."""
    async with Cluster(ray_cluster.address, 1) as cluster:
        ray = cluster.ray
        head = ray.get_runtime_context().get_node_id()
        limits = {"key": KeyLimits(requests_per_minute=60.0)}

        def node_of(limiter: RayLimiter) -> Any:
            ask = limiter._actor.__ray_call__
            return ask.remote(lambda _: __import__("ray").get_runtime_context().get_node_id())

        limiters: list[RayLimiter] = []
        while True:
            assert len(limiters) < 50
            limiter = RayLimiter.start(ray, limits)
            limiters.append(limiter)
            if (before := await cluster.wait_for(node_of(limiter))) != head:
                break
        await limiter.pause("key", 3600)
        waiting = asyncio.ensure_future(limiter.acquire("key", "caller", 1))
        assert not (await asyncio.wait([waiting], timeout=1))[0]
        await asyncio.to_thread(ray_cluster.kill_node)
        async with asyncio.timeout(90):
            await waiting
            await limiter.acquire("key", "caller", 1)
        assert await cluster.wait_for(node_of(limiter)) != before
        await asyncio.to_thread(ray_cluster.add_node)
        async with asyncio.timeout(60):
            while len(await cluster.call(lambda: living_nodes(ray))) < 2:
                await asyncio.sleep(0.1)
