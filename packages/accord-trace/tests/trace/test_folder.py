"""Recordings of a folder and of the folders in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from accord_trace import TraceError, open_traces
from accord_trace.reading import all_names
from sample_recordings import one_turn


def files(folder: Path, *names: str) -> Path:
    """Write files that are recordings by their names."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(b"")
    return folder


def test_folders_are_read_one_level_deep(tmp_path: Path) -> None:
    files(tmp_path, "b.acp.jsonl", "task-2/a-1.acp.jsonl.gz", "task-1/a-1.acp.jsonl.zst")
    files(tmp_path, "task-1/deep/a.acp.jsonl", ".hidden/a.acp.jsonl", "notes.txt", "a.parquet")
    assert list(all_names(tmp_path)) == [
        "b.acp.jsonl",
        "task-1/a-1.acp.jsonl.zst",
        "task-2/a-1.acp.jsonl.gz",
    ]


def test_later_parts_are_not_recordings_of_their_own(tmp_path: Path) -> None:
    files(tmp_path, "r.acp.jsonl", "r.2.acp.jsonl", "r.3.acp.jsonl", "r.5.acp.jsonl")
    files(tmp_path, "other.2.acp.jsonl", "x.jsons", "x.2.jsons", "y.jsonl.gz", "y.2.jsonl.gz")
    assert list(all_names(tmp_path)) == [
        "other.2.acp.jsonl",
        "r.5.acp.jsonl",  # the fourth is missing
        "r.acp.jsonl",
        "x.jsons",
        "y.jsonl.gz",
    ]


def test_names_of_recordings_have_their_folder(tmp_path: Path) -> None:
    (tmp_path / "task-1").mkdir()
    one_turn().save(tmp_path / "task-1" / "a-1.acp.jsonl")
    (found,) = open_traces(tmp_path)
    assert found.name == "task-1/a-1.acp.jsonl"
    assert len(list(found)) == 15


def test_folders_without_recordings_are_an_error(tmp_path: Path) -> None:
    files(tmp_path, "task-1/deep/r.acp.jsonl")
    with pytest.raises(TraceError, match=r"in .* or in its folders, found none"):
        open_traces(tmp_path)


def test_inner_folder_that_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    files(tmp_path, "a/r.acp.jsonl", "b/r.acp.jsonl", "c/r.acp.jsonl")
    problems: list[str] = []
    found = all_names(tmp_path, problems)
    assert next(found) == "a/r.acp.jsonl"
    shutil.rmtree(tmp_path / "b")
    assert list(found) == ["c/r.acp.jsonl"]
    assert problems == [f"Cannot read the folder {tmp_path / 'b'}: No such file or directory"]


@pytest.mark.parametrize(
    "text",
    ['{"id":"a","prompts":["echo a"]}\n{"id":"b"}\n', '"a"\n', "[1]\n", "{}\n"],
    ids=["tasks", "text", "list", "empty"],
)
def test_jsonl_without_messages_is_not_a_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(text)
    files(tmp_path, "a/a.acp.jsonl", "begun.jsonl")
    assert list(all_names(tmp_path)) == ["begun.jsonl", "a/a.acp.jsonl"]


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n',
        '{"schema":"acpx.session.journal.v1"}\n{"jsonrpc":"2.0","id":1,"result":{}}\n',
        '2026-01-01 sent {"jsonrpc":"2.0","id":1,"method":"initialize"}\n',
        "no line end yet",
    ],
    ids=["frames", "acpx", "log", "begun"],
)
def test_jsonl_with_messages_is_a_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.jsonl").write_text(text)
    assert list(all_names(tmp_path)) == ["other.jsonl"]
