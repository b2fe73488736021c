"""Folders of recordings: those of a fleet, very many, and names from the page."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord_fleet.dataset.writer import DatasetWriter
from accord_inspector.command import shown_target
from accord_inspector.recording_inspection import FolderInspection, RecordingFolder
from accord_terminal.conversation import ApiError
from accord_trace import TraceError
from fleet.sample_runs import outcomes, result, sample_plan, tasks
from sample_recordings import one_turn

MANY = 800
ROWS = 500  # that the page shows


def found_in(folder: RecordingFolder) -> list[str]:
    for _ in folder.find():
        pass
    return [one.name for one in folder.found]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with very many recordings; a higher number is newer."""
    folder = tmp_path_factory.mktemp("many")
    recording = one_turn().save(folder / "first.acp.jsonl").read_bytes()
    (folder / "first.acp.jsonl").unlink()
    for number in range(MANY):
        inner = folder / f"task-{number}"
        inner.mkdir()
        (inner / "a-1.acp.jsonl").write_bytes(recording)
        for path in (inner / "a-1.acp.jsonl", inner):
            os.utime(path, (1.7e9 + number, 1.7e9 + number))
    return folder


async def listed(folder: FolderInspection, pattern: str = "") -> dict[str, Any]:
    """Return the list as soon as it is complete, as the page waits for it."""
    while not (found := await folder.recordings(pattern))["complete"]:
        pass
    return found


async def test_recordings_of_a_run_are_listed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trace = gzip.compress(one_turn().save(tmp_path / "r.acp.jsonl").read_bytes())
    plan = sample_plan(2, agents=("codex", "a/b"))
    async with await DatasetWriter.create(run, plan, tasks(2)) as writer:
        results = [result(task, agent) for task in range(2) for agent in ("codex", "a/b")]
        async for _ in writer.append_all(outcomes(results, trace)):
            pass
    async with FolderInspection(run / "traces") as folder:
        found = await listed(folder)
        assert sorted(row["name"] for row in found["recordings"]) == [
            "a%2Fb-1/t0.acp.jsonl.gz",
            "a%2Fb-1/t1.acp.jsonl.gz",
            "codex-1/t0.acp.jsonl.gz",
            "codex-1/t1.acp.jsonl.gz",
        ]
        assert {row["turns"] for row in found["recordings"]} == {1}
        messages = folder.messages("a%2Fb-1/t0.acp.jsonl.gz")
        messages.read_written()
        assert len(messages) == 15


async def test_newest_of_very_many_are_listed(many: Path) -> None:
    async with FolderInspection(many) as folder:
        found = await listed(folder)
        names = [row["name"] for row in found["recordings"]]
        assert names == [f"task-{MANY - 1 - at}/a-1.acp.jsonl" for at in range(ROWS)]
        assert (found["matched"], found["total"]) == (MANY, MANY)


async def test_very_many_are_narrowed_by_a_pattern(many: Path) -> None:
    async with FolderInspection(many) as folder:
        for pattern, count in (
            ("TASK-711/", 1),
            ("task-71*/a-1*", 11),
            ("a-1*", MANY),
            ("?-2*", 0),
        ):
            found = await listed(folder, pattern)
            assert found["matched"] == count, pattern
            assert len(found["recordings"]) == min(count, ROWS)
            assert found["total"] == MANY


async def test_first_list_does_not_wait_for_all_of_very_many(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RecordingFolder.find

    def slow(folder: RecordingFolder) -> Iterator[int]:
        for count in whole(folder):
            yield count
            while count == 10:  # until it is told to stop
                yield count

    monkeypatch.setattr(RecordingFolder, "find", slow)
    async with FolderInspection(many) as folder:
        found = await folder.recordings("")
        assert not found["complete"]
        assert not found["found"]
        assert found["total"] <= 10


def test_new_recordings_are_found(tmp_path: Path) -> None:
    (tmp_path / "task-1").mkdir()
    one_turn().save(tmp_path / "task-1" / "a-1.acp.jsonl")
    folder = RecordingFolder(tmp_path)
    assert found_in(folder) == ["task-1/a-1.acp.jsonl"]
    one_turn().save(tmp_path / "task-1" / "a-2.acp.jsonl")
    os.utime(tmp_path / "task-1" / "a-2.acp.jsonl", (2e9, 2e9))
    assert found_in(folder) == ["task-1/a-2.acp.jsonl", "task-1/a-1.acp.jsonl"]


def test_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="found none"):
        RecordingFolder(tmp_path)


async def test_only_recordings_of_the_folder_are_opened(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "folder.acp.jsonl").mkdir()
    (folder / "notes.txt").write_text("{}")
    for path in (tmp_path / "outside", folder / "r", folder / "inner" / "deep" / "r"):
        one_turn().save(path.with_suffix(".acp.jsonl"))
    async with FolderInspection(folder) as inspection:
        assert inspection.path_of("r.acp.jsonl") == folder / "r.acp.jsonl"
        for name in (
            "../outside.acp.jsonl",
            "inner/../../outside.acp.jsonl",
            "..",
            "",
            "/etc/passwd",
            "//outside.acp.jsonl",
            "./r.acp.jsonl",
            "inner/deep/r.acp.jsonl",
            "r.acp.jsonl/",
            "r.acp.jsonl\0",
            "notes.txt",
            "missing.acp.jsonl",
            "folder.acp.jsonl",
        ):
            with pytest.raises(ApiError, match="Expected a recording in") as raised:
                inspection.path_of(name)
            assert raised.value.status == 404, name


async def test_run_of_a_fleet_shows_its_recordings(tmp_path: Path) -> None:
    (tmp_path / "traces" / "script-1").mkdir(parents=True)
    one_turn().save(tmp_path / "traces" / "script-1" / "a.acp.jsonl")
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "tasks.jsonl").write_text('{"id":"a","prompts":["echo a"]}\n')
    inspection = shown_target(str(tmp_path))()
    assert isinstance(inspection, FolderInspection)
    async with inspection as folder:
        found = await listed(folder)
    assert [item["name"] for item in found["recordings"]] == ["script-1/a.acp.jsonl"]


async def test_files_without_line_ends_are_listed_from_their_beginning(tmp_path: Path) -> None:
    one_turn().save(tmp_path / "good.acp.jsonl")
    for number in range(5):
        with (tmp_path / f"bad-{number}.acp.jsonl").open("wb") as file:
            file.truncate(2_000_000_000)  # sparse
    async with FolderInspection(tmp_path) as folder:
        rows = {row["name"]: row for row in (await listed(folder))["recordings"]}
    assert rows.pop("good.acp.jsonl")["turns"] == 1
    assert {row["size"] for row in rows.values()} == {2_000_000_000}
    assert all(
        "its first 8,000,000 bytes have no message" in row["problem"] for row in rows.values()
    )
