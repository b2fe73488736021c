"""Datasets of runs: what is written can be read, at paths and at addresses of fsspec."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_fleet.dataset import writer as writer_module
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.segments import COLUMNS, SCHEMA, FileJournal, results_of, table_of
from accord_fleet.dataset.writer import DatasetWriter
from accord_fleet.storage import DatasetError, TasksChanged, open_storage
from accord_fleet.types import Failure, Result, Task, Times, Usage, Verdict, WorkItem
from fleet.sample_runs import outcomes, result, sample_plan, tasks


@pytest.fixture(params=["path", "file", "memory"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "path":
            yield str(tmp_path / "run")
        case "file":
            yield f"file://{tmp_path}/a run"
        case _:
            yield f"memory://{tmp_path.name}/run"
            fsspec.filesystem("memory").store.clear()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_ROWS_OF_PART", 4)


async def test_results_are_read_as_they_were_written(address: str, small_parts: None) -> None:
    written = [result(index) for index in range(10)]
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        stored = [one async for one in writer.append_all(outcomes(written))]
        assert len(writer) == 10
    assert sorted(stored, key=lambda one: one.times.started) == written
    dataset = Dataset.open(address)
    assert sorted(dataset.results(), key=lambda one: one.times.started) == written
    assert dataset.plan == sample_plan()
    assert list(dataset.tasks()) == list(tasks(10))
    assert dataset.to_arrow().schema.equals(SCHEMA)
    assert sum(dataset.to_arrow(["cost"])["cost"].to_pylist()) == 2.5
    assert dataset.writer is None


async def test_outcomes_that_arrive_together_share_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    commit = FileJournal.commit

    def counted(journal: FileJournal, lines: list[bytes]) -> None:
        rows.append(len(lines))
        commit(journal, lines)

    async def one_by_one() -> AsyncGenerator[tuple[Result, None]]:
        for index in range(200):
            await asyncio.sleep(0)  # the writer may begin
            yield result(index), None

    monkeypatch.setattr(FileJournal, "commit", counted)
    async with await DatasetWriter.create(tmp_path / "run", sample_plan(200), tasks(200)) as writer:
        async for _ in writer.append_all(one_by_one()):
            pass
    assert sum(rows) == 200
    assert len(rows) < 200


async def test_results_are_read_while_a_run_writes_them(address: str, small_parts: None) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        for index in range(10):
            await writer.append(result(index))
            dataset = Dataset.open(address)
            assert [one.task for one in dataset.results()] == [f"t{n}" for n in range(index + 1)]
            assert dataset.to_arrow(["task"]).num_rows == index + 1
        holder = dataset.writer
        assert holder is not None
        assert holder.machine


async def test_a_second_result_of_an_attempt_is_refused(address: str, tmp_path: Path) -> None:
    trace = tmp_path / "second.acp.jsonl"
    trace.write_text("second")
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        first = await writer.append(result(1, answer="first"), b"first")
        assert first is not None
        assert await writer.append(result(1, answer="second"), trace) is None
        assert not trace.exists()
        assert writer.refused == 1
        both = await asyncio.gather(
            writer.append(result(2, answer="first")), writer.append(result(2, answer="second"))
        )
        assert both[1] is None
    async with await DatasetWriter.resume(address) as writer:
        assert await writer.append(result(1, answer="third"), b"third") is None
    dataset = Dataset.open(address)
    assert [one.answer for one in dataset.results()] == ["first", "first"]
    assert dataset.read_trace(first) == b"first"


async def test_a_recording_is_stored_before_its_row(address: str, tmp_path: Path) -> None:
    recording = tmp_path / "recording.acp.jsonl.zst"
    recording.write_bytes(b"\x28\xb5\x2f\xfdrest")
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        stored = await writer.append(result(3, agent="../x y"), recording)
        assert stored is not None
        assert _unmarked(stored.trace) == "traces/%2E.%2Fx y-1/t3.acp.jsonl.zst"
        assert not recording.exists()
        assert Dataset.open(address).read_trace(stored) == b"\x28\xb5\x2f\xfdrest"
        plain = await writer.append(result(3, attempt=2), b'{"v":1}\n')
        assert plain is not None
        assert _unmarked(plain.trace) == "traces/a-2/t3.acp.jsonl"
        # A recording that cannot be stored: no row names it.
        with pytest.raises(DatasetError, match=r"t4 \(a, attempt 1\) was not stored"):
            await writer.append(result(4), tmp_path / "missing")
        assert not writer.is_done(("t4", "a", 1))
        assert await writer.append(result(4)) is not None


def _unmarked(trace: str | None) -> str:
    # An object store can have two writers for a moment: the mark of each is in its names.
    return re.sub(r"\.[0-9a-f]{8}(?=\.acp)", "", trace or "")


async def test_resume_runs_cancelled_attempts_again(address: str, small_parts: None) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        for index in range(6):
            status = "cancelled" if index in {1, 5} else "finished"
            await writer.append(result(index, attempt=2, status=status))
    async with await DatasetWriter.resume(address) as writer:
        assert writer.recovered.cancelled == 2
        assert not writer.is_done(("t1", "a", 2))
        assert not writer.is_done(("t5", "a", 2))
        assert writer.is_done(("t0", "a", 2))
        await writer.append(result(1, attempt=2, answer="again"))
    found = {one.task: one for one in Dataset.open(address).results()}
    assert sorted(found) == ["t0", "t1", "t2", "t3", "t4"]
    assert found["t1"].answer == "again"


def outside(index: int) -> WorkItem:
    task = Task(id=f"t{index}", prompts=("x",), side_effects="outside", tags=("deploy",))
    return WorkItem(task=task, agent="a")


async def test_attempts_that_began_with_effects_outside_are_lost(address: str) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        for index in range(5):
            await writer.begin(outside(index))
        inside = WorkItem(task=Task(id="t9", prompts=("x",)), agent="a")
        await writer.begin(inside)
        await writer.append(result(0))
        await writer.append(result(1, status="cancelled"))  # in its turn
        before_turn = Times(started=1.0)
        cancelled = msgspec.structs.replace(result(2, status="cancelled"), times=before_turn)
        await writer.append(cancelled)
    for _ in range(2):  # the second time, there is nothing left to do
        async with await DatasetWriter.resume(address) as writer:
            assert writer.recovered.keys == {(f"t{index}", "a", 1) for index in (0, 1, 3, 4)}
        assert open_storage(address).names("starts") == []
    rows = {one.task: one for one in Dataset.open(address).results()}
    assert {task: one.status for task, one in rows.items()} == {
        "t0": "finished",
        "t1": "lost",
        "t3": "lost",
        "t4": "lost",
    }
    assert rows["t3"].tags == ("deploy",)
    assert rows["t3"].failure is not None
    assert "--repeat-lost" in rows["t3"].failure.message


async def test_lost_attempts_are_repeated_if_that_is_allowed(address: str) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)) as writer:
        await writer.begin(outside(1))
        await writer.append(result(2, status="lost"))
        await writer.append(result(3, status="cancelled"))
    async with await DatasetWriter.resume(address, repeat_lost=True) as writer:
        found = writer.recovered
        assert (found.lost, found.repeated, found.cancelled) == (0, 2, 1)
        assert found.keys == set()


async def test_a_run_does_not_begin_where_another_has_begun(address: str) -> None:
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)):
        pass
    with pytest.raises(DatasetError, match="continue it with `accord fleet resume`"):
        await DatasetWriter.create(address, sample_plan(), tasks(10))


async def test_changed_tasks_are_refused(address: str) -> None:
    with pytest.raises(TasksChanged, match="the digest of the plan"):
        await DatasetWriter.create(address, sample_plan(10), tasks(9))
    async with await DatasetWriter.create(address, sample_plan(), tasks(10)):
        pass
    with pytest.raises(TasksChanged, match=r"results of 10 other tasks .* than these 11"):
        await DatasetWriter.resume(address, sample_plan(11))
    storage = open_storage(address)
    storage.write("tasks.jsonl", storage.read("tasks.jsonl") + b" ")
    with pytest.raises(TasksChanged, match=r"tasks\.jsonl was changed after the run began"):
        await DatasetWriter.resume(address)


async def test_what_is_not_a_dataset_is_refused(address: str) -> None:
    missing = r"run (is not a dataset: run\.json is missing|does not exist)"
    with pytest.raises(DatasetError, match=missing):
        Dataset.open(address)
    with pytest.raises(DatasetError, match=missing):
        await DatasetWriter.resume(address)
    assert open_storage(address).names(".") == []
    later = msgspec.json.encode(msgspec.structs.replace(sample_plan(), version=2))
    open_storage(address).write("run.json", later)
    with pytest.raises(DatasetError, match="has version 2"):
        Dataset.open(address)


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(DatasetError, match="nosuch://x"):
        Dataset.open("nosuch://x")


def texts() -> Any:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


numbers = st.none() | st.integers(0, 2**62)
seconds = st.floats(0, 1e10, allow_nan=False)
results = st.builds(
    Result,
    task=texts(),
    agent=texts(),
    attempt=st.integers(1, 9),
    failure=st.none() | st.builds(Failure, message=texts()),
    stop_reasons=st.lists(texts(), max_size=2).map(tuple),
    answer=texts(),
    diff=texts(),
    files_changed=st.lists(texts(), max_size=2).map(tuple),
    tool_calls=st.integers(0, 99),
    verdict=st.none()
    | st.builds(
        Verdict,
        passed=st.none() | st.booleans(),
        score=st.none() | seconds,
        reason=texts(),
        error=st.none() | texts(),
        details=st.dictionaries(texts(), numbers, max_size=2),
    ),
    usage=st.builds(
        Usage,
        input_tokens=numbers,
        output_tokens=numbers,
        total_tokens=numbers,
        cost=st.none() | seconds,
        currency=st.none() | texts(),
    ),
    times=st.builds(
        Times,
        started=seconds,
        workspace_s=seconds,
        start_s=seconds,
        turns_s=st.lists(seconds, max_size=2).map(tuple),
        grading_s=seconds,
        wall_s=seconds,
    ),
    stderr=texts(),
    trace=st.none() | texts(),
    machine=texts(),
    tags=st.lists(texts(), max_size=2).map(tuple),
    repeated=st.lists(texts(), max_size=2).map(tuple),
)


@settings(max_examples=30)
@given(st.lists(results, max_size=4))
def test_rows_have_everything_that_results_have(written: list[Result]) -> None:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table_of(written), sink)
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(sink.getvalue()))
    read = [one for batch in table.to_batches() for one in results_of(batch, "part")]
    assert read == written


def test_every_field_of_a_result_has_a_column() -> None:
    parts: dict[str, Any] = {
        "failure": Failure,
        "verdict": Verdict,
        "usage": Usage,
        "times": Times,
    }
    fields: set[str] = set()
    for name in Result.__struct_fields__:
        if name in parts:
            fields |= {f"{name}.{field}" for field in parts[name].__struct_fields__}
        else:
            fields.add(name)
    fields.remove("verdict.usage")
    fields |= {f"verdict.usage.{field}" for field in Usage.__struct_fields__}
    assert {column.field for column in COLUMNS} == fields


async def test_parts_of_other_versions(tmp_path: Path) -> None:
    run = tmp_path / "run"
    async with await DatasetWriter.create(run, sample_plan(), tasks(10)) as writer:
        await writer.append(result(1))
    (part,) = (run / "results").iterdir()
    table = pyarrow.parquet.read_table(part)
    older = table.drop_columns(["stderr", "tags", "verdict_details"])
    pyarrow.parquet.write_table(older.append_column("new", [["x"]]), part)
    assert list(Dataset.open(run).results()) == [result(1)]
    assert Dataset.open(run).to_arrow()["tags"].to_pylist() == [None]
    later = table.replace_schema_metadata({"accord_fleet.version": "2"})
    pyarrow.parquet.write_table(later, part)
    for read in (Dataset.open(run).results, Dataset.open(run).batches):
        with pytest.raises(DatasetError, match=r"part-000001\.parquet has version 2"):
            list(read())


async def test_other_programs_read_the_parts(tmp_path: Path, small_parts: None) -> None:
    run = tmp_path / "run"
    async with await DatasetWriter.create(run, sample_plan(), tasks(10)) as writer:
        async for _ in writer.append_all(outcomes(map(result, range(10)))):
            pass
    assert not list((run / "journal").iterdir())
    table = pyarrow.dataset.dataset(run / "results").to_table()
    assert sorted(table["task"].to_pylist()) == sorted(f"t{index}" for index in range(10))


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
async def test_only_the_user_reads_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    recording = tmp_path / "recording"
    recording.write_bytes(b"{}")
    async with await DatasetWriter.create(run, sample_plan(), tasks(10)) as writer:
        await writer.append(result(1), recording)
        await writer.append(result(2), b"{}")
        during = list(run.rglob("*"))
        assert {path.stat().st_mode & 0o077 for path in (run, *during)} == {0}
    assert {path.stat().st_mode & 0o777 for path in run.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (run, *run.rglob("*")) if path.is_dir()} == {
        0o700
    }


async def test_text_that_is_not_unicode_is_stored(tmp_path: Path) -> None:
    async with await DatasetWriter.create(tmp_path / "r", sample_plan(), tasks(10)) as writer:
        await writer.append(result(1, answer="a\ud800b\x00c"))
    (read,) = Dataset.open(tmp_path / "r").results()
    assert read.answer == "a?b\x00c"
