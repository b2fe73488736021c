"""What waits on a cluster is in the progress of the driver: the limits of keys, held agents."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accord_fleet import AgentSpec, Failure, RayEngine, Resources, Result, Task, Times
from accord_fleet.gateway.providers import Provider
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.types import WorkItem
from fleet.running import RAW

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def attempts_that_ask(folder: Path) -> Any:
    """Return what opens the attempts of a slot: each waits for a key that is used up, and for
    one that is paused, until there is a file with the name of the key, and then for a file `go`.

    Ray sends these functions by value: the nodes have no module of tests.
    """

    @contextlib.asynccontextmanager
    async def open_attempts(_: RunSettings, limiter: Any) -> AsyncIterator[Any]:
        async def wait_for_file(name: str) -> None:
            while not (folder / name).exists():
                await asyncio.sleep(0.02)

        async def run(item: WorkItem, _: Control) -> Attempted:
            await limiter.acquire("limited", "x", 0)
            await limiter.pause("paused", 3600)
            for key in ("limited", "paused"):
                asking = asyncio.ensure_future(limiter.acquire(key, "x", 0))
                await wait_for_file(key)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            await wait_for_file("go")
            times = Times(started=0)
            result = Result(
                task=item.task.id, agent=item.agent, status="finished", machine="m", times=times
            )
            return Attempted(result, None)

        yield run

    return open_attempts


def provider(name: str, requests_per_minute: float | None) -> Provider:
    return Provider(
        name=name,
        api="anthropic",
        base_url="http://127.0.0.1:9",
        key=f"KEY_{name}",
        requests_per_minute=requests_per_minute,
    )


async def test_waits_for_a_key_reach_the_driver(ray_cluster: Any, tmp_path: Path) -> None:
    settings = RunSettings(
        agents=tuple(
            AgentSpec(name=f"agent-{name}", command=("unused",), provider=name)
            for name in ("limited", "paused")
        ),
        providers=(provider("limited", 0.01), provider("paused", None)),
    )
    said: dict[str, list[str | None]] = {}
    control = Control()

    def say(what: str, why: str | None) -> None:
        if what == "cluster":
            return  # it lacks room for a while after a test has killed a node
        said.setdefault(what, []).append(why)
        (tmp_path / what.removeprefix("agent-")).touch()
        if len(said) == 2 and not any(whys[-1] for whys in said.values()):
            (tmp_path / "go").touch()

    control.on_wait = say
    engine = RayEngine(ray_cluster.address, jobs=1, open_attempts=attempts_that_ask(tmp_path))
    work = [WorkItem(task=Task(id="t", prompts=("x",)), agent="agent-limited")]
    async with contextlib.aclosing(engine.run(work, settings, control)) as outcomes:
        assert [outcome.result.status async for outcome in outcomes] == ["finished"]
    for name, why in (
        ("limited", "the limit of"),
        ("paused", "the pause that the provider asked for, with"),
    ):
        first, *_, last = said[f"agent-{name}"]
        text = rf"waiting \d+ s for {why} the key in KEY_{name} \(1 request\)"
        assert re.fullmatch(text, first or "")
        assert last is None


async def test_starts_on_all_nodes_count_together(ray_cluster: Any) -> None:
    """Four slots that each counted their own would start the agent twenty times."""
    agent = AgentSpec(name="raw", command=(*RAW, "exit"), resources=Resources(cpus=0.5))
    control, said = Control(), list[tuple[str, str | None]]()

    def stop(what: str, why: str | None) -> None:
        if what == "cluster" or what.startswith("node "):
            return  # it lacks room for a while after a test has killed a node
        said.append((what, why))
        control.cancel()

    control.on_wait = stop
    engine = RayEngine(ray_cluster.address, jobs=4)
    work = [WorkItem(task=Task(id=f"t{n}", prompts=("say 1",)), agent="raw") for n in range(40)]
    settings = RunSettings(agents=(agent,))
    async with contextlib.aclosing(engine.run(work, settings, control)) as outcomes:
        results = [outcome.result async for outcome in outcomes]
    assert said[0][0] == "raw"
    assert "5 starts in a row have failed; the last reason: Expected raw to answer" in str(said[0])
    counts = Counter(result.status for result in results)
    # Those that were starting when it was held back may fail, or be cancelled.
    assert 5 <= counts["failed"] <= 5 + 3
    assert counts.keys() <= {"failed", "cancelled"}
    assert {result.failure for result in results if result.status == "cancelled"} <= {None}


def attempts_that_start_on_one_node(folder: Path) -> Any:
    """Return what opens the attempts of a slot: on the node of the first one, no agent starts."""

    @contextlib.asynccontextmanager
    async def open_attempts(_settings: RunSettings, _limiter: Any) -> AsyncIterator[Any]:
        import ray

        node = ray.get_runtime_context().get_node_id()

        async def run(item: WorkItem, _: Control) -> Attempted:
            with contextlib.suppress(FileExistsError), (folder / "broken").open("x") as file:
                file.write(node)
            broken = (folder / "broken").read_text()
            with (folder / "starts").open("a") as file:
                file.write("broken\n" if node == broken else "works\n")
            failure = Failure(where="start", message="no program 'node'")
            result = Result(
                task=item.task.id,
                agent=item.agent,
                status="failed" if node == broken else "finished",
                failure=failure if node == broken else None,
                machine="m",
                times=Times(started=0),
            )
            return Attempted(result, None)

        yield run

    return open_attempts


async def test_node_on_which_no_agent_starts_is_left(ray_cluster: Any, tmp_path: Path) -> None:
    agent = AgentSpec(name="a", command=("unused",), resources=Resources(cpus=0.5))
    control, said = Control(), list[tuple[str, str | None]]()
    control.on_wait = lambda what, why: said.append((what, why))
    opens = attempts_that_start_on_one_node(tmp_path)
    engine = RayEngine(ray_cluster.address, jobs=4, open_attempts=opens)
    work = [WorkItem(task=Task(id=f"t{n}", prompts=("x",)), agent="a") for n in range(200)]
    async with contextlib.aclosing(
        engine.run(work, RunSettings(agents=(agent,)), control)
    ) as outcomes:
        results = [outcome.result async for outcome in outcomes]
    assert {result.status for result in results} == {"finished"}
    assert {result.task for result in results} == {item.task.id for item in work}
    starts = Counter((tmp_path / "starts").read_text().split())
    assert starts["works"] == 200
    # Each slot fails there once or twice before it is opened elsewhere.
    assert 1 <= starts["broken"] <= 8
    repeated = [each for result in results for each in result.repeated]
    assert len(repeated) == starts["broken"]
    assert all(each.endswith(": no program 'node'") for each in repeated)
    held = [why for what, why in said if what.startswith("node ") and why]
    assert len(held) == (1 if starts["broken"] >= 3 else 0)
