"""`accord fleet run`: real commands, real agents, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from accord_fleet import AgentSpec, FleetError, Task
from accord_fleet.command.run_fleet import RunOptions, resume_fleet, run_fleet
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.engines.local import why_not_usable
from accord_fleet.plan import Plan
from fleet.running import RAW

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
AGENT = f"raw={shlex.join(RAW)}"


def write_tasks(folder: Path, *prompts: str) -> Path:
    path = folder / "tasks.jsonl"
    tasks = [{"id": f"t{n}", "prompts": [text]} for n, text in enumerate(prompts, 1)]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path


@asynccontextmanager
async def fleet(*words: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `accord fleet` in a process group of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "fleet", *map(str, words)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def events(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, object]]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        yield json.loads(line)


def statuses(found: list[dict[str, object]]) -> dict[str, str]:
    return {
        str(event["task"]): str(event["status"]) for event in found if event["event"] == "result"
    }


class Pipes:
    """Named pipes by which an agent says that its turn has begun, and waits."""

    def __init__(self, folder: Path) -> None:
        self.begun = folder / "begun"
        self.go = folder / "go"
        os.mkfifo(self.begun)
        os.mkfifo(self.go)

    async def wait_until_begun(self) -> None:
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(self.begun.read_text) == "begun"

    async def release(self) -> None:
        async with asyncio.timeout(30):
            await asyncio.to_thread(self.go.write_text, "go")


def command_line(folder: Path, second: str) -> list[str | Path]:
    tasks = write_tasks(folder, "say one", second, "say three")
    return ["run", tasks, "--agent", AGENT, "--jobs", "1", "--out", folder / "run", "--json"]


async def test_ctrl_c_starts_no_further_attempts(tmp_path: Path) -> None:
    pipes = Pipes(tmp_path)
    async with fleet(*command_line(tmp_path, f"pause {pipes.begun} {pipes.go}")) as process:
        await pipes.wait_until_begun()
        os.killpg(process.pid, signal.SIGINT)
        found: list[dict[str, object]] = []
        async for event in events(process):
            found.append(event)
            if event["event"] == "stage":
                await pipes.release()
        assert await process.wait() == 130
    assert statuses(found) == {"t1": "finished", "t2": "finished"}
    async with fleet("resume", tmp_path / "run", "--json") as process:
        resumed = [event async for event in events(process)]
        assert await process.wait() == 0
    assert statuses(resumed) == {"t3": "finished"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_second_ctrl_c_cancels_turns(tmp_path: Path, number: signal.Signals) -> None:
    pipes = Pipes(tmp_path)
    async with fleet(*command_line(tmp_path, f"wait {pipes.begun}")) as process:
        await pipes.wait_until_begun()
        os.killpg(process.pid, number)
        found: list[dict[str, object]] = []
        async for event in events(process):
            found.append(event)
            if event.get("stage") == "stopping":
                os.killpg(process.pid, number)
        assert await process.wait() == 130
    assert statuses(found) == {"t1": "finished", "t2": "cancelled"}
    # What was cancelled is run again.
    waits = asyncio.create_task(pipes.wait_until_begun())
    async with fleet("resume", tmp_path / "run", "--json") as process:
        await waits
        os.killpg(process.pid, signal.SIGTERM)
        resumed = [event async for event in events(process)]
    assert statuses(resumed) == {"t2": "cancelled"}


async def test_a_third_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    pipes = Pipes(tmp_path)
    async with fleet(*command_line(tmp_path, f"hang {pipes.begun}")) as process:
        await pipes.wait_until_begun()
        found: list[dict[str, object]] = []
        async for event in events(process):
            found.append(event)
            if event["event"] in ("result", "stage"):
                os.killpg(process.pid, signal.SIGINT)
        assert await process.wait() == 130
    assert [event["stage"] for event in found if event["event"] == "stage"] == [
        "stopping",
        "cancelling",
    ]
    assert statuses(found) == {"t1": "finished"}


async def test_a_killed_driver_repeats_no_effects_outside_the_workspace(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("inside", "outside")}
    for folder in folders.values():
        folder.mkdir()
    pipes = {name: Pipes(folder) for name, folder in folders.items()}
    tasks = [
        Task(
            id=name,
            prompts=(f"pause {pipes[name].begun} {pipes[name].go}",),
            side_effects="outside" if name == "outside" else "workspace",
        )
        for name in folders
    ]
    path, run = tmp_path / "tasks.jsonl", tmp_path / "run"
    path.write_bytes(b"".join(msgspec.json.encode(task) + b"\n" for task in tasks))
    words = ["run", path, "--agent", AGENT, "--jobs", "2", "--out", run, "--json"]
    async with fleet(*words) as process:
        for both in pipes.values():
            await both.wait_until_begun()
        process.kill()
        await process.wait()

    async def resumed(name: str, *words: str) -> dict[str, str]:
        """Resume the run; return the attempts that were run, of which one waits."""
        async with fleet("resume", run, "--json", *words) as process:
            await pipes[name].wait_until_begun()
            await pipes[name].release()
            found = [event async for event in events(process)]
            assert await process.wait() == (0 if words else 3)
        return statuses(found)

    assert await resumed("inside") == {"inside": "finished"}
    rows = {result.task: result.status for result in Dataset.open(run).results()}
    assert rows == {"inside": "finished", "outside": "lost"}
    # Unless it is allowed.
    assert await resumed("outside", "--repeat-lost") == {"outside": "finished"}
    rows = {result.task: result.status for result in Dataset.open(run).results()}
    assert rows == {"inside": "finished", "outside": "finished"}


async def test_all_errors_are_reported_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    tasks = write_tasks(tmp_path, "say hi")
    words = ["--agent", "no-such-agent-x", "--agent", f"a={RAW[0]}", "--agent", f"a={RAW[0]}"]
    words += ["--limit", "speed=1", "--limit", "turn_s=0", "--allow", "edits"]
    async with fleet("run", tasks, *words, "--out", out) as process:
        stdout, stderr = await process.communicate()
    assert (process.returncode, stdout) == (1, b"")
    text = stderr.decode()
    for part in ("no-such-agent-x", "'a' 2 times", "speed=1", "turn_s=0", "closest is 'edit'"):
        assert part in text
    assert not out.exists()


def test_names_of_engines_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "foo://x", "ray://", "ray://head", "head", "Ray", "http://head:1", "local\n"):
        assert repr(name) in (why_not_usable(name) or "")
    good = ("ray", "ray://head:10001", "10.0.0.7:6379", "[::1]:6379")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert [why_not_usable(name) for name in ("local", *good)] == [None] * 5
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert why_not_usable("local") is None
    assert all("pip install" in (why_not_usable(name) or "") for name in good)


async def test_wrong_engine_is_reported_before_anything_is_stored(tmp_path: Path) -> None:
    tasks, out = write_tasks(tmp_path, "say hi"), tmp_path / "run"
    options = RunOptions(
        tasks=str(tasks), agents=[AGENT], out=str(out), jobs=1, on="foo://x", limits=["speed=1"]
    )
    with pytest.raises(FleetError, match=r"(?s)foo://x.*speed=1"):
        await run_fleet(options)
    assert not out.exists()


async def test_resume_replaces_the_engine(tmp_path: Path) -> None:
    tasks = [Task(id="t1", prompts=("say hi",))]
    number, digest = count_tasks(tasks)
    agent = AgentSpec(name="raw", command=RAW)
    plan = Plan(created=1.0, agents=(agent,), tasks=number, digest=digest, engine="foo://x")
    async with await DatasetWriter.create(tmp_path / "run", plan, tasks):
        pass
    resume = partial(resume_fleet, out=str(tmp_path / "run"), jobs=1, as_json=True)
    with pytest.raises(FleetError, match=r"foo://x.*accord fleet resume --on ADDRESS"):
        await resume(on=None)
    with pytest.raises(FleetError, match="bar://y"):
        await resume(on="bar://y")
    assert await resume(on="local") == 0
    dataset = Dataset.open(tmp_path / "run")
    assert dataset.plan == msgspec.structs.replace(plan, engine="local")
    assert [result.status for result in dataset.results()] == ["finished"]
    missing = AgentSpec(name="gone", command=("no-such-agent-x",))
    elsewhere = msgspec.structs.replace(plan, agents=(missing,), engine="head:6379")
    async with await DatasetWriter.create(tmp_path / "run2", elsewhere, tasks):
        pass
    with pytest.raises(FleetError, match="no-such-agent-x"):
        await resume(out=str(tmp_path / "run2"), on="local")


async def test_results_of_all_agents_and_attempts_are_stored(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, "say one", "die")
    words = ["--agent", AGENT, "--agent", f"other={shlex.join(RAW)}", "--attempts", "2"]
    out = tmp_path / "run"
    async with fleet("run", tasks, *words, "--jobs", "2", "--out", out, "--json") as process:
        found = [event async for event in events(process)]
        assert await process.wait() == 3  # two attempts failed
    results = [event for event in found if event["event"] == "result"]
    assert len(results) == 8
    keys = {(event["task"], event["agent"], event["attempt"]) for event in results}
    assert len(keys) == 8
    assert {event["status"] for event in results} == {"finished", "failed"}
    assert len(list((out / "traces").rglob("*.acp.jsonl.*"))) == 8
    assert json.loads((out / "run.json").read_text())["attempts"] == 2
    async with fleet("resume", out) as process:  # there is nothing to do
        await process.communicate()
        assert process.returncode == 3
