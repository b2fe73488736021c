"""The Ray engine on a cluster of several nodes: what an attempt gets, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from accord_fleet import (
    AgentSpec,
    Archive,
    FleetError,
    Folder,
    FunctionGrader,
    GitRepository,
    LocalEngine,
    RayEngine,
    Resources,
    Result,
    Task,
    Times,
)
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.engines.ray_actors import RayLimiter
from accord_fleet.engines.ray_cluster import Cluster, Versions
from accord_fleet.gateway.limiter import KeyLimits
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control, Engine
from accord_fleet.types import WorkItem
from fleet.running import RAW

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCRIPT = AgentSpec(name="script", command=(sys.executable, "-m", "accord", "agent", "script"))


def items(tasks: Iterable[Task], agent: str = "a") -> list[WorkItem]:
    return [WorkItem(task=task, agent=agent) for task in tasks]


def settings(**changes: Any) -> RunSettings:
    agent = msgspec.structs.replace(AgentSpec(name="a", command=("unused",)), **changes)
    return RunSettings(agents=(agent, SCRIPT))


async def outcomes(engine: Engine, work: Any, given: RunSettings) -> list[Attempted]:
    async with contextlib.aclosing(engine.run(work, given, Control())) as arrived:
        return [outcome async for outcome in arrived]


def attempts_that(act: Callable[[WorkItem, Control], Any]) -> Any:
    """Return what opens the attempts of a slot; `act` returns or awaits the answer.

    Ray sends these functions by value: the nodes have no module of tests.
    """

    @contextlib.asynccontextmanager
    async def open_attempts(_: RunSettings, __: Any) -> AsyncIterator[Any]:
        async def run(item: WorkItem, control: Control) -> Attempted:
            answer = act(item, control)
            if asyncio.iscoroutine(answer):
                answer = await answer
            return Attempted(
                Result(
                    task=item.task.id,
                    agent=item.agent,
                    status="cancelled" if control.is_cancelling else "finished",
                    answer=answer,
                    machine=str(os.getpid()),
                    times=Times(started=0),
                ),
                b"recording",
            )

        yield run

    return open_attempts


async def test_results_are_those_of_the_local_engine(ray_cluster: Any) -> None:
    tasks = [Task(id=f"t{n}", prompts=(f"echo {n}", f"echo again {n}")) for n in range(50)]
    given = RunSettings(agents=(SCRIPT,))

    async def results(engine: Engine) -> dict[str, Result]:
        attempted = await outcomes(engine, items(tasks, "script"), given)
        assert all(one.trace for one in attempted)
        return {
            one.result.task: msgspec.structs.replace(
                one.result, times=Times(started=0), machine="", trace=None
            )
            for one in attempted
        }

    local = await results(LocalEngine(2))
    assert await results(RayEngine(ray_cluster.address, jobs=4)) == local
    assert {task: result.answer for task, result in local.items()} == {
        task.id: task.prompts[1].removeprefix("echo ") for task in tasks
    }


async def test_attempts_with_effects_outside_are_not_repeated(
    ray_cluster: Any, tmp_path: Path
) -> None:
    def die_once(item: WorkItem, _: Control) -> str:
        marker = Path(item.task.env["MARKER"])
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), 9)
        return "survived"

    def tasks(folder: Path, side_effects: Any) -> Iterable[Task]:
        for n in range(2):
            env = {"MARKER": str(folder / f"{side_effects}{n}")}
            yield Task(id=f"{side_effects}{n}", prompts=("x",), env=env, side_effects=side_effects)

    engine = RayEngine(ray_cluster.address, jobs=2, open_attempts=attempts_that(die_once))
    work = items([*tasks(tmp_path, "outside"), *tasks(tmp_path, "workspace")])
    arrived = {o.result.task: o.result for o in await outcomes(engine, work, settings())}
    assert Counter(result.status for result in arrived.values()) == {"lost": 2, "finished": 2}
    for n in range(2):
        lost = arrived[f"outside{n}"]
        assert lost.status == "lost"
        assert lost.failure
        assert lost.failure.where == "engine"
        assert "was lost" in lost.failure.message
        assert arrived[f"workspace{n}"].answer == "survived"


async def test_an_attempt_that_always_ends_its_worker_is_given_up(ray_cluster: Any) -> None:
    def die(item: WorkItem, _: Control) -> str:
        if item.task.id == "bad":
            os.kill(os.getpid(), 9)
        return "survived"

    engine = RayEngine(ray_cluster.address, jobs=1, retries=1, open_attempts=attempts_that(die))
    work = items([Task(id="bad", prompts=("x",)), Task(id="good", prompts=("x",))])
    arrived = {o.result.task: o.result.status for o in await outcomes(engine, work, settings())}
    assert arrived == {"bad": "lost", "good": "finished"}


def commit(folder: Path) -> None:
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *command], cwd=folder, check=True)


def files_with(secret: str, folder: Path) -> tuple[int, list[Path]]:
    """Return the number of files in a folder, and those that contain the secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return len(files), [path for path in files if secret.encode() in path.read_bytes()]


async def test_files_of_the_driver_arrive_once_on_a_node(ray_cluster: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("in a folder\n")
    (folder / "grade.py").write_text("def grade(attempt): return True\n")
    archive = tmp_path / "project.zip"
    archive.write_bytes(b"as it is")
    commit(folder)
    grader = FunctionGrader(function=f"{folder / 'grade.py'}:grade")
    workspaces = (Folder(str(folder)), Archive(str(archive)), GitRepository(str(folder)))
    tasks = [
        Task(id=f"{kind}{n}", prompts=("x",), workspace=workspace, grader=grader)
        for n in range(4)
        for kind, workspace in enumerate(workspaces)
    ]

    def look(item: WorkItem, _: Control) -> str:
        space, graded = item.task.workspace, item.task.grader
        path = Path(getattr(space, "path", None) or getattr(space, "url", ""))
        seen = (path / "a.txt", path / "HEAD", path)
        content = next(one.read_text() for one in seen if one.is_file())
        code = Path(getattr(graded, "function", "").rpartition(":")[0]).read_text()
        return f"{path}|{path.stat().st_ino}|{content.strip()}|{code.strip()}"

    engine = RayEngine(ray_cluster.address, jobs=4, open_attempts=attempts_that(look))
    arrived = await outcomes(engine, items(tasks), settings())
    answers = [one.result.answer.split("|") for one in arrived]
    assert len(answers) == 12
    assert Counter(content for _, _, content, _ in answers).keys() >= {"in a folder", "as it is"}
    assert {code for *_, code in answers} == {"def grade(attempt): return True"}
    # Both nodes are this machine: each folder or file was unpacked once.
    assert len({(path, inode) for path, inode, *_ in answers}) == 3
    assert not any(path.startswith(str(tmp_path)) for path, *_ in answers)


async def test_nodes_read_archives_at_an_address(ray_cluster: Any, tmp_path: Path) -> None:
    """They are not sent through Ray."""
    (tmp_path / "a.txt").write_text("from the archive")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    agent = AgentSpec(name="raw", command=RAW, warm=False)
    task = Task(id="t", prompts=("try a.txt",), workspace=Archive(f"file://{tmp_path}/a.tar.gz"))
    engine = RayEngine(ray_cluster.address, jobs=1)
    [done] = await outcomes(engine, items([task], "raw"), RunSettings(agents=(agent,)))
    assert (done.result.status, done.result.answer) == ("finished", "from the archive")


async def test_a_second_stop_cancels_running_attempts(ray_cluster: Any) -> None:
    async def wait(item: WorkItem, control: Control) -> str:
        if item.task.id != "t0":
            await control.cancelling.wait()
        return "done"

    control = Control()
    engine = RayEngine(ray_cluster.address, jobs=2, open_attempts=attempts_that(wait))
    taken = 0

    def source() -> Iterable[WorkItem]:
        nonlocal taken
        for n in range(1000):
            taken += 1
            yield WorkItem(task=Task(id=f"t{n}", prompts=("x",)), agent="a")

    arrived: list[Result] = []
    async with contextlib.aclosing(engine.run(source(), settings(), control)) as running:
        async for outcome in running:
            arrived.append(outcome.result)
            if outcome.result.task == "t0":
                control.stop()
                control.cancel()
    statuses = Counter(result.status for result in arrived)
    assert statuses["finished"] == 1
    assert statuses["cancelled"] <= 2
    assert taken <= 6  # read as there is room


async def test_agents_end_with_their_worker(ray_cluster: Any, tmp_path: Path) -> None:
    """An agent whose worker is killed does not go on."""
    agent = AgentSpec(name="script", command=SCRIPT.command, resources=Resources(cpus=1))
    task = Task(id="long", prompts=("wait 600",), side_effects="outside")
    engine = RayEngine(ray_cluster.address, jobs=1)

    async def kill() -> set[psutil.Process]:
        while True:
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.name().startswith("ray::Slot"):
                        agents = {
                            child
                            for child in process.children(recursive=True)
                            if "agent" in child.cmdline() and "script" in child.cmdline()
                        }
                        if agents:
                            process.send_signal(signal.SIGKILL)
                            return agents
            await asyncio.sleep(0.1)

    killing = asyncio.ensure_future(kill())
    [outcome] = await outcomes(engine, items([task], "script"), RunSettings(agents=(agent,)))
    assert outcome.result.status == "lost"
    gone, alive = psutil.wait_procs(list(await killing), timeout=20)
    assert gone
    assert not alive


async def test_a_key_is_nowhere_in_ray(ray_cluster: Any, secret: str, tmp_path: Path) -> None:
    """The nodes have the key in their environment; Ray's files and tables never have it."""

    def use(item: WorkItem, _: Control) -> str:
        return str(len(os.environ["ACCORD_FLEET_TEST_KEY"]))

    given = settings(secrets=("ACCORD_FLEET_TEST_KEY",))
    engine = RayEngine(ray_cluster.address, jobs=2, open_attempts=attempts_that(use))
    tasks = [Task(id=f"t{n}", prompts=("x",)) for n in range(5)]
    arrived = await outcomes(engine, items(tasks), given)
    assert {one.result.answer for one in arrived} == {str(len(secret))}
    number, found = files_with(secret, Path(ray_cluster.session))
    assert number > 10
    assert not found


async def test_all_nodes_share_the_limiter_of_a_key(ray_cluster: Any) -> None:
    """One request in 100 minutes is allowed, wherever it comes from; a cancelled one gives up."""
    async with Cluster(ray_cluster.address, 1) as cluster:
        limits = {"key": KeyLimits(requests_per_minute=0.01)}
        limiter = RayLimiter.start(cluster.ray, limits)

        def ask(shared: RayLimiter, number: int, seconds: float) -> int:
            async def acquire() -> int:
                waiting = {
                    asyncio.ensure_future(shared.acquire("key", f"caller {n}", 1))
                    for n in range(number)
                }
                done, left = await asyncio.wait(
                    waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
                for one in left:
                    one.cancel()
                await asyncio.gather(*left, return_exceptions=True)
                return len(done)

            return asyncio.run(acquire())

        def waiting(actor: Any) -> int:
            key = actor._keys.get("key")
            return 0 if key is None else sum(map(len, key._waiting.values()))

        task = cluster.ray.remote(num_cpus=0.1, scheduling_strategy="SPREAD")(ask)
        assert await cluster.wait_for(task.remote(limiter, 10, 60.0)) == 1
        assert await cluster.wait_for(task.remote(limiter, 10, 1.0)) == 0
        async with asyncio.timeout(60):
            while await cluster.wait_for(limiter._actor.__ray_call__.remote(waiting)):
                await asyncio.sleep(0.1)
        # The allowance is used up, and not by those that gave up.
        await limiter.settle("key", 0)
        assert await cluster.wait_for(task.remote(limiter, 1, 1.0)) == 0


async def test_slots_reserve_what_their_agent_needs(ray_cluster: Any) -> None:
    """A custom resource is that of one node only, which Ray marks as the head."""

    def reserved(_: WorkItem, __: Control) -> str:
        import ray

        return msgspec.json.encode(ray.get_runtime_context().get_assigned_resources()).decode()

    needs = Resources(cpus=0.5, memory_bytes=2**20, custom={"node:__internal_head__": 0.01})
    engine = RayEngine(ray_cluster.address, jobs=2, open_attempts=attempts_that(reserved))
    work = items([Task(id=f"t{n}", prompts=("x",)) for n in range(4)])
    arrived = await outcomes(engine, work, settings(resources=needs))
    assert [msgspec.json.decode(one.result.answer) for one in arrived] == [
        {"CPU": 0.5, "memory": 2.0**20, "node:__internal_head__": 0.01}
    ] * 4


async def test_versions_must_agree(ray_cluster: Any) -> None:
    async with Cluster(ray_cluster.address, 1) as cluster:
        with pytest.raises(FleetError, match=r"node-7 has Python 3\.9, Ray 2\.1, Accord missing; "):
            cluster.check("node-7", Versions("3.9", "2.1", None))


async def test_ray_client_addresses_serve(
    ray_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that the server of Ray starts for the connection may crash at its start."""
    ray = pytest.importorskip("ray")
    connect, crashes = ray.init, [ConnectionAbortedError("Starting Ray client server failed.")]

    def init(**options: object) -> object:
        if crashes:
            raise crashes.pop()
        return connect(**options)

    monkeypatch.setattr(ray, "init", init)
    engine = RayEngine(
        ray_cluster.client_address,
        jobs=2,
        open_attempts=attempts_that(lambda item, _: item.task.id),
    )
    arrived = await outcomes(
        engine, items(Task(id=f"t{n}", prompts=("x",)) for n in range(20)), settings()
    )
    assert Counter(one.result.answer for one in arrived) == {f"t{n}": 1 for n in range(20)}
    assert {one.trace for one in arrived} == {b"recording"}


def test_accord_fleet_starts_and_ends_a_cluster(tmp_path: Path) -> None:
    """`--on ray` starts Ray on this machine for the run, and writes nothing of Ray."""
    pytest.importorskip("ray")
    tasks = [Task(id=f"t{n}", prompts=(f"echo {n}",)) for n in range(10)]
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, tasks)))
    script = f"script={sys.executable} -m accord agent script"
    command = [sys.executable, "-m", "accord", "fleet", "run", "tasks.jsonl", "--out", "run"]
    ended = subprocess.run(
        [*command, "--on", "ray", "--jobs", "2", "--agent", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "RAY_ADDRESS": ""},
    )
    assert ended.returncode == 0, ended.stderr
    assert "ray" not in (ended.stdout + ended.stderr).lower()
    results = {result.task: result.answer for result in Dataset.open(tmp_path / "run").results()}
    assert results == {f"t{n}": str(n) for n in range(10)}
    left = [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in _words(one)]
    assert not left


def _words(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or ())
