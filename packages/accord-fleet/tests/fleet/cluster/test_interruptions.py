"""`accord fleet run --on` a cluster: Ctrl-C, and a cluster that is lost; `resume` continues."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from accord_fleet.dataset.dataset import Dataset
from fleet.running import RAW

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

AGENT = f"raw={shlex.join(RAW)}"


@asynccontextmanager
async def fleet(*words: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `accord fleet` in a process group of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "fleet", *map(str, words), "--json"),
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


async def events(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        yield json.loads(line)


async def resumed(run: Path, *words: str) -> list[dict[str, Any]]:
    """Resume a run, which must succeed; return the events of its results."""
    async with fleet("resume", run, *words) as process:
        found = [event async for event in events(process)]
        assert await process.wait() == 0
    return [event for event in found if event["event"] == "result"]


def write_tasks(folder: Path, prompts: list[str]) -> Path:
    path = folder / "tasks.jsonl"
    tasks = [{"id": f"t{n}", "prompts": [text]} for n, text in enumerate(prompts)]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path


def stored(run: Path) -> Counter[tuple[str, str]]:
    return Counter((result.task, result.status) for result in Dataset.open(run).results())


def pipes(folder: Path) -> tuple[Path, Path]:
    """Return named pipes by which an agent says that its turn has begun, and waits."""
    begun, go = folder / "begun", folder / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    return begun, go


async def read(pipe: Path) -> str:
    async with asyncio.timeout(60):
        return await asyncio.to_thread(pipe.read_text)


async def test_ctrl_c_lets_running_attempts_finish(ray_cluster: Any, tmp_path: Path) -> None:
    begun, go = pipes(tmp_path)
    tasks = write_tasks(tmp_path, ["say one", f"pause {begun} {go}", *["say more"] * 3])
    run = tmp_path / "run"
    words = ("run", tasks, "--agent", AGENT, "--on", ray_cluster.address, "--out", run)
    async with fleet(*words, "--jobs", "1") as process:
        assert await read(begun) == "begun"
        os.killpg(process.pid, signal.SIGINT)
        stages: list[str] = []
        async for event in events(process):
            if event["event"] == "stage":
                stages.append(event["stage"])
                await asyncio.to_thread(go.write_text, "go")
        assert await process.wait() == 130
    assert stages == ["stopping"]
    assert stored(run) == {("t0", "finished"): 1, ("t1", "finished"): 1}
    assert {event["task"] for event in await resumed(run)} == {"t2", "t3", "t4"}
    assert stored(run) == {(f"t{n}", "finished"): 1 for n in range(5)}


async def test_a_second_ctrl_c_cancels_turns(ray_cluster: Any, tmp_path: Path) -> None:
    begun, _ = pipes(tmp_path)
    tasks = write_tasks(
        tmp_path, ["say one", f"wait-once {tmp_path / 'waited'} {begun}", "say more"]
    )
    run = tmp_path / "run"
    words = ("run", tasks, "--agent", AGENT, "--on", ray_cluster.address, "--out", run)
    async with fleet(*words, "--jobs", "1") as process:
        assert await read(begun) == "begun"
        os.killpg(process.pid, signal.SIGINT)
        async for event in events(process):
            if event.get("stage") == "stopping":
                os.killpg(process.pid, signal.SIGINT)
        assert await process.wait() == 130
    assert stored(run) == {("t0", "finished"): 1, ("t1", "cancelled"): 1}
    [cancelled] = [one for one in Dataset.open(run).results() if one.status == "cancelled"]
    assert cancelled.stop_reasons == ("cancelled",)  # the agent said so: it was not killed
    assert {event["task"] for event in await resumed(run)} == {"t1", "t2"}
    assert stored(run) == {(f"t{n}", "finished"): 1 for n in range(3)}


@pytest.mark.parametrize("where", ["on a node", "outside"])
async def test_a_lost_cluster_ends_the_run(own_cluster: Any, tmp_path: Path, where: str) -> None:
    total, go = 20, tmp_path / "go"
    # All but five last until the cluster is lost, however long it takes to notice that.
    tasks = write_tasks(tmp_path, [*["say one"] * 5, *[f"until {go}"] * (total - 5)])
    run = tmp_path / "run"
    on = own_cluster.address if where == "on a node" else own_cluster.client_address
    async with fleet(
        *("run", tasks, "--agent", AGENT, "--on", on, "--out", run, "--jobs", "4")
    ) as process:
        arrived = 0
        async for event in events(process):
            arrived += event["event"] == "result"
            if arrived == 5:
                break
        if where == "on a node":
            await asyncio.to_thread(own_cluster.kill_server_of_head)
        else:
            await asyncio.to_thread(own_cluster.kill_head)
        async for event in events(process):
            arrived += event["event"] == "result"
        # Before Ray itself ends the process, which says nothing, after a minute.
        assert await process.wait() == 1
        assert process.stderr is not None
        said = (await process.stderr.read()).decode()
    assert f"Error: cluster {on} was lost: its head does not answer" in said
    assert f"`accord fleet resume {run}` continues" in said
    assert "Traceback" not in said
    before = stored(run)
    assert sum(before.values()) == arrived
    assert arrived == 5
    go.touch()
    assert len(await resumed(run, "--on", "local", "--jobs", "8")) == total - arrived
    assert stored(run) == {(f"t{n}", "finished"): 1 for n in range(total)}
