"""The disk is full: the run stops and says so, keeps what is written, and is resumed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.storage import DatasetWriteFailed
from fleet.sample_runs import outcomes, result, sample_plan, tasks

TASKS = 250


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root of Linux can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=768k", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def long(index: int) -> str:
    return f"{index} ".ljust(4000, "x")


async def fill(run: Path, trace: bytes | None, stored: list[str]) -> None:
    """Store results until the disk is full."""
    async with await DatasetWriter.create(run, sample_plan(TASKS), tasks(TASKS)) as writer:
        results = (result(index, answer=long(index)) for index in range(TASKS))
        async with contextlib.aclosing(writer.append_all(outcomes(results, trace))) as done:
            async for one in done:
                stored += [one.task]


def make_space(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)


@pytest.mark.parametrize("traced", [False, True])
async def test_a_run_on_a_full_disk(small_disk: Path, traced: bool) -> None:
    run = small_disk / "run"
    trace = b"t" * 3000 if traced else None
    stored: list[str] = []
    with pytest.raises(DatasetWriteFailed, match="No space left on device") as failed:
        await fill(run, trace, stored)
    assert "make space and run `accord fleet resume`" in str(failed.value)
    assert 5 < len(stored) < TASKS
    rows = [one.task for one in Dataset.open(run).results()]
    assert len(rows) == len(set(rows))
    assert set(stored) <= set(rows)
    make_space(small_disk)
    async with await DatasetWriter.resume(run) as writer:
        assert writer.recovered.keys == {(task, "a", 1) for task in rows}
        missing = (result(index, answer=long(index)) for index in range(TASKS))
        async for _ in writer.append_all(outcomes(missing, trace)):
            pass
        assert len(writer) == TASKS
    assert {one.task for one in Dataset.open(run).results()} == {f"t{i}" for i in range(TASKS)}
    assert not list((run / "journal").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the size of files")
async def test_a_journal_that_cannot_grow_keeps_whole_lines(tmp_path: Path) -> None:
    import resource

    async with await DatasetWriter.create(tmp_path, sample_plan(), tasks(10)) as writer:
        await writer.append(result(1))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / "journal" / "000001.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
        try:
            with pytest.raises(DatasetWriteFailed, match="File too large"):
                await writer.append(result(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert await writer.append(result(2, answer="later")) is not None
    read = list(Dataset.open(tmp_path).results())
    assert [one.answer for one in read] == ["answer 1", "later"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the size of files")
async def test_a_part_that_cannot_be_written_stays_a_journal(tmp_path: Path) -> None:
    import resource

    writer = await DatasetWriter.create(tmp_path, sample_plan(), tasks(10))
    await writer.append(result(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        await writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(writer.not_folded, OSError)
    assert list(Dataset.open(tmp_path).results()) == [result(1)]
    async with await DatasetWriter.resume(tmp_path) as writer:
        assert writer.recovered.from_journals == 1
