"""One measurement in a process of its own: python driver.py MODE TASKS JOBS [MS]; prints JSON.

With MS, the agent waits so many milliseconds in each turn, as it would for a model. `bare` has only
`accord.connect`, `local` and `ray` run a fleet with a dataset, and `plan` runs one with an engine
that has each result at once, which measures the driver without attempts. Then `status` and `report`
of that run are measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import accord
from accord_fleet import AgentSpec, LocalEngine, RayEngine, Result, Task, Times
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.plan import Plan, RunSettings
from accord_fleet.progress import LineProgress
from accord_fleet.run import Attempted, Control, run_plan
from accord_fleet.types import WorkItem

AGENT: tuple[str, ...] = (sys.executable, "-m", "accord", "agent", "script")
if len(sys.argv) > 4:
    AGENT = (sys.executable, str(Path(__file__).with_name("waiting_agent.py")), sys.argv[4])
PROMPT = "stream 10"
ANSWER = "1 2 3 4 5 6 7 8 9 10 "


def tasks(number: int) -> Iterator[Task]:
    return (Task(id=f"task-{at:06}", prompts=(PROMPT,)) for at in range(number))


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class AtOnce:
    """An engine that has each result at once."""

    async def run(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        settings: RunSettings,
        control: Control,
    ) -> AsyncGenerator[Attempted]:
        assert not isinstance(items, AsyncIterable)
        for item in items:
            result = Result(
                task=item.task.id,
                agent=item.agent,
                attempt=item.attempt,
                status="finished",
                stop_reasons=("end_turn",),
                answer=ANSWER,
                times=Times(started=time.time(), wall_s=1.0),
            )
            yield Attempted(result, None)


async def bare(number: int, jobs: int) -> dict[str, float]:
    """Give each process a task after another, each in a new session and folder."""
    left = iter(range(number))
    async with AsyncExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory())
        agents = [await stack.enter_async_context(accord.connect(AGENT)) for _ in range(jobs)]

        async def work(agent: Any) -> None:
            for at in left:
                folder = Path(root, str(at))
                folder.mkdir()  # noqa: ASYNC240  # as fast as a user would do it
                session = await agent.new_session(str(folder))
                async with session.prompt(PROMPT) as turn:
                    await turn.wait()
                assert turn.text == ANSWER, turn.text
                await session.close()

        start, cpu = time.perf_counter(), cpu_s()
        async with asyncio.TaskGroup() as group:
            for agent in agents:
                group.create_task(work(agent))
        return {"s": time.perf_counter() - start, "cpu_s": cpu_s() - cpu}


def reading(run: Path) -> dict[str, float]:
    """Measure the commands that read a run, each in a process of its own."""
    page = run.with_name("report.html")
    numbers: dict[str, float] = {}
    for name, *options in (["status"], ["report", "--html", str(page)]):
        command = [sys.executable, "-m", "accord", "fleet", name, str(run), *options]
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, name
        numbers[f"{name}_s"] = time.perf_counter() - start
        numbers[f"{name}_cpu_s"] = used.ru_utime + used.ru_stime
        numbers[f"{name}_mb"] = used.ru_maxrss / 1024
    numbers["page_kb"] = page.stat().st_size / 1000
    return numbers


async def fleet(engine: Any, number: int, *, and_read: bool = False) -> dict[str, float]:
    """Run a fleet with a dataset; the time until its agents have started does not count."""
    counted = count_tasks(tasks(number))
    agents = (AgentSpec(name="script", command=AGENT),)
    plan = Plan(created=time.time(), agents=agents, tasks=counted.number, digest=counted.digest)
    first: tuple[float, float] | None = None
    warm = done = 0
    with tempfile.TemporaryDirectory() as root:
        run = Path(root, "run")
        async with await DatasetWriter.create(run, plan, tasks(number)) as dataset:
            start, cpu = time.perf_counter(), cpu_s()
            observer = LineProgress("RUN", sys.stderr)
            settings = RunSettings(agents=agents)
            async for result in run_plan(dataset, engine, settings, Control(), observer):
                assert result.status == "finished", result
                assert result.answer == ANSWER, result
                done += 1
                if first is None and done > number // 10:
                    first, warm = (time.perf_counter(), cpu_s()), done
        assert done == number
        end, cpu_end = time.perf_counter(), cpu_s()
        numbers = await asyncio.to_thread(reading, run) if and_read else {}
    assert first is not None
    share = number / (number - warm)
    return numbers | {
        "s": (end - first[0]) * share,
        "cpu_s": (cpu_end - first[1]) * share,
        "all_s": end - start,
        "all_cpu_s": cpu_end - cpu,
    }


def main() -> None:
    mode, number, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    match mode:
        case "bare":
            numbers = asyncio.run(bare(number, jobs))
        case "local":
            numbers = asyncio.run(fleet(LocalEngine(jobs), number))
        case "ray":
            numbers = asyncio.run(fleet(RayEngine(jobs=jobs), number))
        case _:
            numbers = asyncio.run(fleet(AtOnce(), number, and_read=True))
    numbers["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
