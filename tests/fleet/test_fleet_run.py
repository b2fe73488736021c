"""`accord fleet run`: real commands, real agents, real signals."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

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
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def events(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, object]]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        yield json.loads(line)


def statuses(found: list[dict[str, object]]) -> dict[str, str]:
    return {
        str(event["task"]): str(event["status"]) for event in found if event["type"] == "result"
    }


async def run_and_interrupt(folder: Path, *numbers: int) -> tuple[int, dict[str, str], str]:
    """Send signals while `wait` runs: one when it has begun, each further one after its stage."""
    tasks = write_tasks(folder, "say one", "mark wait", "say three")
    words = ("run", tasks, "--agent", AGENT, "--jobs", "1", "--out", folder / "run", "--json")
    waiting = list(numbers)
    found: list[dict[str, object]] = []
    async with fleet(*words) as process:
        async for event in events(process):
            found.append(event)
            if event["type"] in ("starting", "stage", "result") and waiting:
                is_first = len(waiting) == len(numbers)
                if is_first and len(statuses(found)) < 1:
                    continue
                process.send_signal(waiting.pop(0))
        assert process.stderr is not None
        stderr = (await process.stderr.read()).decode()
        return await process.wait(), statuses(found), stderr


async def test_all_errors_are_reported_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    tasks = write_tasks(tmp_path, "say hi")
    words = ["--agent", "no-such-agent-x", "--agent", f"a={RAW[0]}", "--agent", f"a={RAW[0]}"]
    words += ["--limit", "speed=1", "--limit", "turn_s=0"]
    async with fleet("run", tasks, *words, "--out", out) as process:
        stdout, stderr = await process.communicate()
    assert (process.returncode, stdout) == (1, b"")
    text = stderr.decode()
    for part in ("no-such-agent-x", "'a' 2 times", "speed=1", "turn_s=0"):
        assert part in text
    assert not out.exists()


async def test_results_of_all_agents_and_attempts_are_stored(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, "say one", "die")
    words = ["--agent", AGENT, "--agent", f"other={shlex.join(RAW)}", "--attempts", "2"]
    out = tmp_path / "run"
    async with fleet("run", tasks, *words, "--jobs", "2", "--out", out, "--json") as process:
        found = [event async for event in events(process)]
        assert await process.wait() == 0
    results = [event for event in found if event["type"] == "result"]
    assert len(results) == 8
    keys = {(event["task"], event["agent"], event["attempt"]) for event in results}
    assert len(keys) == 8
    assert {event["status"] for event in results} == {"finished", "failed"}
    assert len(list((out / "traces").rglob("*.acp.jsonl.*"))) == 8
    assert json.loads((out / "run.json").read_text())["attempts"] == 2
