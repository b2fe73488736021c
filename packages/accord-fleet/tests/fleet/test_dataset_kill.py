"""The driver of a run is killed at random: no result is lost, and none is counted twice."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest

from accord_fleet.dataset.dataset import Dataset

TASKS = 600
DRIVER = f"""
import runpy, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
runpy.run_module("fleet.dataset_driver", run_name="__main__", alter_sys=True)
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


async def run_driver(address: Path, kill_after: int | None) -> list[str]:
    """Run a driver, killed after it has stored so many results; return their tasks."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(address.parent / "driver.py"), str(address), str(TASKS)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stored: list[str] = []
    if kill_after is None:
        process.stdin.close()
    else:
        process.stdin.write(b"\n" * kill_after)
    async with asyncio.timeout(50):
        while line := await process.stdout.readline():
            if not line.endswith(b"\n"):
                continue  # the last line of a killed process may be torn
            stored.append(line.decode().strip())
            if len(stored) == kill_after:
                process.kill()  # once: another signal could take the status from asyncio
        errors = await process.stderr.read()
        status = await process.wait()
    assert status == (0 if kill_after is None else -signal.SIGKILL), errors.decode()
    return stored


def check(address: Path, stored: set[str]) -> None:
    """Check that each task has one row at most, and the stored ones have exactly one."""
    dataset = Dataset.open(address)
    assert dataset.writer is None
    results = list(dataset.results())
    rows = Counter(one.task for one in results)
    assert not {task: count for task, count in rows.items() if count > 1}
    assert stored <= rows.keys()
    for one in results:
        assert one.answer == f"{one.task} " * 50
        if int(one.task[1:]) % 5 == 0:
            assert dataset.read_trace(one) == f"trace of {one.task}".encode()
        else:
            assert one.trace is None


@pytest.mark.slow
async def test_a_killed_driver_loses_nothing_that_it_stored(tmp_path: Path) -> None:
    address = tmp_path / "run"
    (tmp_path / "driver.py").write_text(DRIVER)
    stored: set[str] = set()
    for kill_after in random.Random(7).sample(range(1, 200), 3):
        new = await run_driver(address, kill_after)
        assert not stored & set(new), "an attempt with a row was run again"
        stored |= set(new)
        check(address, stored)
    await run_driver(address, None)
    check(address, {f"t{index}" for index in range(TASKS)})
    # Other programs see all of it.
    table = pyarrow.dataset.dataset(address / "results").to_table(columns=["task"])
    assert table.num_rows == TASKS
    assert not list((address / "journal").iterdir())
