"""`accord trace` with folders, with recordings of another format, and without an agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from accord.program import COMMANDS, load_command
from accord_terminal.click_group import main
from accord_trace import TraceError, open_trace
from accord_trace.message_index import MessageIndex
from sample_recordings import one_turn


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["trace", *words], COMMANDS, load_command)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two recordings, one of them in a folder of its own."""
    found = tmp_path / "runs"
    (found / "b").mkdir(parents=True)
    one_turn().save(found / "a.acp.jsonl")
    one_turn().save(found / "b" / "c.acp.jsonl")
    return found


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A folder with one recording."""
    found = tmp_path / "single"
    found.mkdir()
    one_turn().save(found / "a.acp.jsonl")
    return found


COMMANDS_OF_READERS = (
    ("show", "F"),
    ("stats", "F"),
    ("export", "F", "--format", "md"),
    ("export", "F", "--format", "har"),
    ("diff", "F", "F"),
    ("replay", "F", "--as", "client", "--", sys.executable, "-c", ""),
)


@pytest.mark.parametrize("found", ["nothing", "other files", "an empty file", "no such folder"])
def test_every_command_says_alike_that_there_is_no_recording(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, found: str
) -> None:
    where = tmp_path / "found"
    if found == "an empty file":
        where.touch()
    elif found != "no such folder":
        where.mkdir()
    if found == "other files":
        (where / "notes.txt").write_text("not a recording")
    message = {
        "an empty file": f"Error: Expected a recording in {where}: it is empty",
        "no such folder": f"Path '{where}' does not exist",
    }.get(found, f"Error: Expected recordings (*.acp.jsonl, .jsons, .ndjson) in {where}")
    for words in COMMANDS_OF_READERS:
        status, out, err = run(capsys, *(str(where) if word == "F" else word for word in words))
        assert (status, out) == (2, ""), words
        assert message in err, words


def test_every_command_takes_a_folder_with_one_recording(
    capsys: pytest.CaptureFixture[str], single: Path
) -> None:
    for words in COMMANDS_OF_READERS:
        status, _, err = run(capsys, *(str(single) if word == "F" else word for word in words))
        assert "is a directory" not in err, words
        assert "Expected a file" not in err, words
        assert status == (2 if words[0] == "replay" else 0), words  # its agent ends at once


def test_stats_show_each_recording_of_a_folder(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    status, out, err = run(capsys, "stats", str(folder))
    assert (status, err) == (0, "")
    assert out.startswith("a.acp.jsonl\n")
    assert "\nb/c.acp.jsonl\n" in out
    assert out.count("15 messages") == 2
    status, out, _ = run(capsys, "stats", str(folder), "--json")
    found = json.loads(out)
    assert list(found) == ["a.acp.jsonl", "b/c.acp.jsonl"]
    assert found["a.acp.jsonl"] == json.loads(
        run(capsys, "stats", str(folder / "a.acp.jsonl"), "--json")[1]
    )


def test_recordings_of_a_folder_are_exported_to_a_folder(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    status, out, err = run(
        capsys, "export", str(folder), "--format", "md", "-o", str(tmp_path / "out")
    )
    assert (status, out, err) == (0, "", "")
    whole = run(capsys, "export", str(folder / "a.acp.jsonl"), "--format", "md")[1]
    written = (tmp_path / "out" / "a.md").read_text()
    assert written == whole
    assert (tmp_path / "out" / "b" / "c.md").read_text() == whole.replace(
        "a.acp.jsonl", "b/c.acp.jsonl"
    )
    status, _, err = run(capsys, "export", str(folder), "--format", "md")
    assert status == 2
    assert f"{folder} has 2 recordings: add -o FOLDER" in err


@pytest.mark.parametrize("command", ["replay", "stats"])
def test_several_recordings_are_named_where_one_is_expected(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, command: str
) -> None:
    options = ["--html", str(tmp_path / "x.html")] if command == "stats" else []
    status, _, err = run(capsys, command, str(folder), *options)
    assert status == 2
    expected = f"Expected one recording, got 2 in the folder {folder}: a.acp.jsonl, b/c.acp.jsonl"
    assert expected in err


def test_folders_are_compared_by_name(
    capsys: pytest.CaptureFixture[str], folder: Path, single: Path
) -> None:
    status, out, _ = run(capsys, "diff", str(folder), str(folder))
    assert (status, out) == (0, "a.acp.jsonl\nb/c.acp.jsonl\n")
    status, out, _ = run(capsys, "diff", str(folder), str(single))
    assert status == 1
    assert out.endswith(f"b/c.acp.jsonl\n- the recording is only in {folder}\n")
    status, out, _ = run(capsys, "diff", str(single), str(folder), "--json")
    assert status == 1
    found = json.loads(out)
    assert found["same"] is False
    assert [one["same"] for one in found["recordings"]] == [True, False]
    status, _, err = run(capsys, "diff", str(folder), str(single / "a.acp.jsonl"))
    assert status == 2
    assert "Expected two recordings or two folders" in err


def test_diff_says_that_values_were_not_compared(
    capsys: pytest.CaptureFixture[str], single: Path
) -> None:
    path = str(single / "a.acp.jsonl")
    status, out, err = run(capsys, "diff", path, path)
    assert (status, out) == (0, "")
    assert "texts and numbers were not compared: --strict compares them" in err
    assert run(capsys, "diff", path, path, "--strict") == (0, "", "")
    status, out, err = run(capsys, "diff", path, path, "--json")
    assert (json.loads(out)["strict"], err) == (False, "")


# Another format.


@pytest.mark.parametrize("version", [0, 2, 99, "2", 1.5, None])
def test_recording_of_another_version_is_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str], single: Path, version: object
) -> None:
    path = single / "a.acp.jsonl"
    header, *lines = path.read_bytes().splitlines(keepends=True)
    changed = {"type": "header", **json.loads(header), "version": version, "program": "other 7"}
    path.write_bytes(json.dumps(changed, separators=(",", ":")).encode() + b"\n" + b"".join(lines))
    shown = "None" if version is None else str(version)
    for command, *options in (
        ("show",),
        ("stats",),
        ("export", "--format", "md"),
        ("diff", str(path)),
        ("replay",),
    ):
        status, out, err = run(capsys, command, str(path), *options)
        assert status != 0, command
        assert out == "", command
        assert f"version {shown} of the format" in err, command
        assert "this version of Accord reads version 1" in err, command
    with pytest.raises(TraceError, match="of the format"), MessageIndex([path]) as index:
        index.advance()


def test_header_without_a_version_is_read(single: Path) -> None:
    path = single / "a.acp.jsonl"
    header, rest = path.read_bytes().split(b"\n", 1)
    value = json.loads(header)
    del value["version"]
    path.write_bytes(json.dumps(value, separators=(",", ":")).encode() + b"\n" + rest)
    assert len(list(open_trace(path))) == 15


# Recording.


@pytest.mark.parametrize("agent", ["./missing-agent", "."])
def test_agent_that_cannot_start_leaves_no_recording(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, agent: str
) -> None:
    path = tmp_path / "r.acp.jsonl"
    status, _, err = run(capsys, "record", "-o", str(path), "--", agent)
    assert status == 1
    assert agent in err
    assert list(tmp_path.iterdir()) == []
    path.write_text("an earlier recording\n")
    status, _, _ = run(capsys, "record", "-o", str(path), "--", agent)
    assert status == 1
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "an earlier recording\n"
