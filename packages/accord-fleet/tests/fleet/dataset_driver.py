"""A driver that stores results: `python -m fleet.dataset_driver ADDRESS TASKS`.

It prints a line for each result that is stored, and is killed by its test. Each line of stdin
allows it to take one result, and its end to take all: otherwise a fast machine would end the run
before the test has read what was stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from accord_fleet.dataset import writer as writer_module
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.plan import work_items
from accord_fleet.storage import DatasetError
from accord_fleet.types import Result
from fleet.sample_runs import result, sample_plan, tasks


async def open_dataset(address: str, number: int) -> DatasetWriter:
    """Begin the dataset, or resume it."""
    with contextlib.suppress(DatasetError):
        Dataset.open(address)
        return await DatasetWriter.resume(address)
    return await DatasetWriter.create(address, sample_plan(number), tasks(number))


async def attempts(
    dataset: DatasetWriter,
) -> AsyncGenerator[tuple[Result, Path | bytes | None]]:
    """Yield a result for each attempt that has no row, some of them twice."""
    plan = dataset.plan
    for item in work_items(plan.agents, plan.attempts, dataset.tasks(), dataset.is_done):
        index = int(item.task.id[1:])
        one = result(index, answer=f"{item.task.id} " * 50)
        trace = f"trace of {item.task.id}".encode() if index % 5 == 0 else None
        yield one, trace
        if index % 7 == 0:
            yield one, trace


async def main(address: str, number: int) -> None:
    """Store all results."""
    allowed = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(allowed), sys.stdin
    )
    async with (
        await open_dataset(address, number) as dataset,
        contextlib.aclosing(dataset.append_all(attempts(dataset))) as stored,
    ):
        async for one in stored:
            await allowed.readline()
            print(one.task, flush=True)


if __name__ == "__main__":
    writer_module._ROWS_OF_PART = 64
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
