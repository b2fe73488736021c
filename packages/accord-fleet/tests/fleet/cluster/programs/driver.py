"""A driver that tests kill: `driver.py ADDRESS RUN TASKS`; it resumes RUN if it exists.

It writes the process of each stored result to stdout. Each line of stdin allows it to take one
result; after the end of stdin it takes all.
"""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from accord_fleet import AgentSpec, Resources, Result, Task, Times
from accord_fleet.dataset.run_file import count_tasks
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.engines.ray import RayEngine
from accord_fleet.plan import Plan, RunSettings, work_items
from accord_fleet.run import Attempted, Control


def attempts_of(folder: Path):
    """Return what opens the attempts of a slot: each runs a command, and is written down."""

    @contextlib.asynccontextmanager
    async def open_attempts(settings, limiter):
        log = os.open(folder / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        async def run(item, control):
            os.write(log, f"{item.task.id}\n".encode())
            began = time.time()
            process = await asyncio.create_subprocess_exec("true")
            result = Result(
                task=item.task.id,
                agent=item.agent,
                status="finished" if await process.wait() == 0 else "failed",
                answer=item.task.prompts[0],
                machine=str(os.getpid()),
                times=Times(started=began),
            )
            return Attempted(result, item.task.id.encode() * 1000)

        yield run
        os.close(log)

    return open_attempts


async def lines_of_stdin() -> asyncio.StreamReader:
    """Return a reader that does not block the loop."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main() -> None:
    allowed = await lines_of_stdin()
    address, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    run = folder / "run"
    agents = (AgentSpec(name="a", command=("unused",), resources=Resources(cpus=1)),)

    def tasks():
        return (Task(id=f"t{index}", prompts=(f"Prompt {index}",)) for index in range(number))

    if run.exists():
        opening = DatasetWriter.resume(run)
    else:
        counted = count_tasks(tasks())
        plan = Plan(created=time.time(), agents=agents, tasks=number, digest=counted.digest)
        opening = DatasetWriter.create(run, plan, tasks())
    async with await opening as writer:
        engine = RayEngine(
            address, jobs=4, name="faults", retries=10, open_attempts=attempts_of(folder)
        )
        items = work_items(agents, 1, writer.tasks(), writer.is_done)
        outcomes = engine.run(items, RunSettings(agents=agents), Control())
        async with contextlib.aclosing(outcomes):
            async for result in writer.append_all(outcomes):
                await allowed.readline()
                print(result.machine, flush=True)
        assert not writer.refused, f"{writer.refused} results came twice"


asyncio.run(main())
