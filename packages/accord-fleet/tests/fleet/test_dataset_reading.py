"""Reading a dataset of many results: `status` and `report` read what they need, and no more."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord_fleet.dataset.dataset import Dataset, run_status
from accord_fleet.dataset.run_file import write_run
from accord_fleet.dataset.segments import write_part
from accord_fleet.report.aggregate import read_report
from accord_fleet.storage import FolderStorage
from accord_fleet.types import Result
from fleet.sample_results import AGENTS, sample_results
from fleet.sample_runs import result, sample_plan, tasks

ROWS, TEXT = 400, 8_000


class CountedFile(io.FileIO):
    """A file that counts what is read."""

    count = 0

    def read(self, size: int | None = -1, /) -> Any:
        data = super().read(size)
        CountedFile.count += len(data or b"")
        return data

    def readinto(self, buffer: Any, /) -> Any:
        size = super().readinto(buffer)
        CountedFile.count += size or 0
        return size


class CountedStorage(FolderStorage):
    """A folder whose files count what is read."""

    def open(self, name: str) -> Any:
        CountedFile.count = 0
        return CountedFile(Path(self.address, name))


@pytest.fixture
def run(tmp_path: Path) -> Dataset:
    """A run whose texts are most of what it has."""
    rng = random.Random(1)
    storage = CountedStorage(tmp_path, str(tmp_path))
    write_run(storage, sample_plan(ROWS), tasks(ROWS))
    rows = (
        msgspec.structs.replace(result(at), answer=rng.randbytes(TEXT // 2).hex())
        for at in range(ROWS)
    )
    write_part(storage, 1, rows)
    return Dataset(storage)


def test_the_status_reads_a_few_columns_only(run: Dataset, tmp_path: Path) -> None:
    assert run_status(run).done == ROWS
    size = (tmp_path / "results" / "part-000001.parquet").stat().st_size
    assert size > ROWS * TEXT / 4
    assert 0 < CountedFile.count < size / 10


def test_results_without_texts_are_the_same_otherwise(run: Dataset) -> None:
    whole = list(run.results())
    short = list(run.results(texts=False))
    assert 0 < CountedFile.count < ROWS * TEXT / 10
    without = {"answer": "", "diff": "", "stderr": "", "files_changed": ()}
    assert short == [msgspec.structs.replace(one, **without) for one in whole]
    assert whole[7].answer


def test_results_of_some_tasks(run: Dataset) -> None:
    found = list(run.results(tasks={"t7", "t290"}))
    assert [one.task for one in found] == ["t7", "t290"]
    assert all(one.answer for one in found)


def test_the_report_of_a_run_has_the_texts_of_its_cases(tmp_path: Path) -> None:
    rows: list[Result] = list(sample_results(40))
    storage = FolderStorage(tmp_path, str(tmp_path))
    write_run(storage, sample_plan(40, tuple(AGENTS)), tasks(40))
    write_part(storage, 1, rows[:60])
    write_part(storage, 2, rows[60:])
    report = read_report(str(tmp_path))
    cases = [*report.failed, *report.slowest, *report.dearest]
    cases += [case for group in report.disagreements for case in group]
    assert len(cases) > 30
    assert all(case.diff.startswith("diff --git") and case.answer for case in cases)
