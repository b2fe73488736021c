"""Reading, editing and writing files, from the model's and the client's side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord import Diff, ImageContent, ToolCallLocation
from coder.harness import BOTH, CoderHarness, scripted

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def diffs(harness: CoderHarness) -> list[Diff]:
    return [part for part in harness.call.content if isinstance(part, Diff)]


# Reading.


async def test_read_returns_lines_and_reports_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    async with scripted(tmp_path) as harness:
        assert (await harness.use("read", path="a.txt", limit=10)).text.endswith("9\n10\n")
        part = await harness.use("read", path="a.txt", line=3, limit=2)
        assert part.text == "3\n4\n[lines 3-4 of 10]"
        assert harness.call.kind == "read"
        assert harness.call.title == "Read a.txt"
        assert harness.call.locations == (ToolCallLocation(str(tmp_path / "a.txt"), 3),)
        assert harness.call.raw_input == {"path": "a.txt", "line": 3, "limit": 2}
        assert harness.call.raw_output == {"output": part.text}
        assert harness.call.content == ("```txt\n3\n4\n[lines 3-4 of 10]\n```",)
        beyond = await harness.use("read", path="a.txt", line=11)
        assert beyond.text == "a.txt has 10 lines; line 11 does not exist."
        assert harness.call.status == "failed"


async def test_empty_file_is_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    async with scripted(tmp_path) as harness:
        result = await harness.use("read", path="a.txt")
        assert (result.text, result.failed) == ("", False)


async def test_image_is_detected_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(PNG)
    async with scripted(tmp_path) as harness:
        result = await harness.use("read", path="picture.txt")
        assert result.content[1] == ImageContent(PNG, "image/png")
        assert harness.call.content == (ImageContent(PNG, "image/png"),)


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_detected_by_their_first_bytes(
    head: bytes, mime_type: str, tmp_path: Path
) -> None:
    (tmp_path / "picture").write_bytes(head)
    async with scripted(tmp_path) as harness:
        assert (await harness.use("read", path="picture")).content[1] == ImageContent(
            head, mime_type
        )


async def test_unreadable_path_is_an_error_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "big.png").write_bytes(PNG + b"x" * 6_000_000)
    (tmp_path / "folder").mkdir()
    async with scripted(tmp_path) as harness:
        for path, reason in {
            "a.bin": "a binary file of 6 bytes",
            "a.pdf": "a binary file",
            "big.png": "larger than 5 MiB",
            "folder": "Is a directory",
            "none": "does not exist",
            "a.bin/b": "Not a directory",
        }.items():
            result = await harness.use("read", path=path)
            assert result.failed
            assert reason in result.text
            assert harness.call.status == "failed"
            assert harness.call.raw_output == {"error": result.text}


async def test_long_text_is_read_completely_in_parts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{'x' * 999}\n" * 250)
    (tmp_path / "line.txt").write_text("y" * 300_000)
    async with scripted(tmp_path) as harness:
        first = await harness.use("read", path="a.txt")
        assert first.text.endswith("\n[lines 1-100 of 250]")
        last = await harness.use("read", path="a.txt", line=201)
        assert last.text.endswith("\n[lines 201-250 of 250]")
        line = await harness.use("read", path="line.txt")
        assert line.text.endswith("y\n[line 1 is cut]\n[lines 1-1 of 1]")
        assert len(line.text) < 101_000


async def test_very_large_file_is_read_in_parts_and_not_edited(tmp_path: Path) -> None:
    with (tmp_path / "huge.log").open("w") as file:
        for number in range(1, 200_001):
            file.write(f"{number:0100}\n")
    async with scripted(tmp_path) as harness:
        part = await harness.use("read", path="huge.log", line=199_999, limit=5)
        assert part.text == f"{199_999:0100}\n{200_000:0100}\n[lines 199999-200000 of 200000]"
        edit = await harness.use("edit", path="huge.log", edits=[{"old": "1", "new": "2"}])
        assert "larger than 16 MiB" in edit.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
async def test_named_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with scripted(tmp_path) as harness:
        assert "not a file" in (await harness.use("read", path="pipe")).text


# Editing.


@BOTH
async def test_edit_shows_its_diff_once_before_the_permission_request(
    version: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.py"
    path.write_text("one\ntwo\nthree\n")
    async with scripted(tmp_path, version) as harness:
        await harness.use("read", path="a.py")
        edits = [{"old": "two", "new": "2"}, {"old": "2\nthree", "new": "2\n3"}]
        result = await harness.use("edit", path="a.py", edits=edits)
        assert result.text == "Made 2 replacements in a.py, at lines 2, 2."
        assert path.read_text() == "one\n2\n3\n"
        change = Diff(str(path), "one\ntwo\nthree\n", "one\n2\n3\n")
        if version == 1:
            assert diffs(harness) == [change]
        else:
            assert len(diffs(harness)) == 1
        assert harness.call.kind == "edit"
        assert harness.call.locations == (ToolCallLocation(str(path), 2),)
        (request,) = harness.asked
        assert request.tool_call is not None
        assert request.tool_call.content == harness.call.content
        assert harness.call.status == "completed"


@BOTH
async def test_rejected_edit_changes_nothing(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    async with scripted(tmp_path, version, allow="reject") as harness:
        await harness.use("read", path="a.txt")
        result = await harness.use("edit", path="a.txt", edits=[{"old": "two", "new": "2"}])
        assert result.failed
        assert result.text == "Permission was not given: the client rejected the request."
        assert (tmp_path / "a.txt").read_text() == "two\n"
        assert harness.call.status == ("failed" if version == 1 else "cancelled")


EDITS = {
    "missing": (
        [{"old": "four", "new": "4"}],
        "`old` does not occur in a.txt. Read the file again. Nothing was changed.",
    ),
    "other white space": (
        [{"old": "  two  \nx", "new": "2"}],
        "Its first line is like line 2, 4, so white space",
    ),
    "ambiguous": ([{"old": "two", "new": "2"}], "`old` occurs 2 times in a.txt, at lines 2, 4"),
    "overlapping": ([{"old": "aa", "new": "b"}], "`old` occurs 2 times in a.txt, at lines 3, 3"),
    "empty": ([{"old": "", "new": "b"}], "`old` is empty"),
    "the same": ([{"old": "one", "new": "one"}], "is equal to `new`"),
    "second of two": (
        [{"old": "one", "new": "1"}, {"old": "none", "new": "0"}],
        "`old` of replacement 2 does not occur in a.txt.",
    ),
    "no edits": ([], "Expected `array` of length >= 1 - at `$.edits`"),
}


async def test_ambiguous_edit_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\naaa\ntwo\n")
    async with scripted(tmp_path) as harness:
        await harness.use("read", path="a.txt")
        for case, (edits, reason) in EDITS.items():
            result = await harness.use("edit", path="a.txt", edits=edits)
            assert result.failed, case
            assert reason in result.text
        assert harness.asked == []
        assert (tmp_path / "a.txt").read_text() == "one\ntwo\naaa\ntwo\n"


async def test_all_replaces_every_occurrence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\ntwo two\n")
    async with scripted(tmp_path) as harness:
        await harness.use("read", path="a.txt")
        edit = {"old": "two", "new": "2", "all": True}
        made = await harness.use("edit", path="a.txt", edits=[edit])
        assert made.text == "Made 3 replacements in a.txt, at lines 1, 2, 2."
        assert (tmp_path / "a.txt").read_text() == "2\n2 2\n"


# Writing.


@BOTH
async def test_new_file_is_written_with_its_directories(version: int, tmp_path: Path) -> None:
    async with scripted(tmp_path, version) as harness:
        result = await harness.use("write", path="new/deep/a.txt", text="one\ntwo")
        path = tmp_path / "new" / "deep" / "a.txt"
        assert result.text == "Created new/deep/a.txt: 2 lines."
        assert path.read_text() == "one\ntwo"
        assert [diff.path for diff in diffs(harness)] == [str(path)]
        if version == 1:
            assert diffs(harness) == [Diff(str(path), None, "one\ntwo")]
        assert harness.call.locations == (ToolCallLocation(str(path), 1),)
        assert len(harness.asked) == 1


async def test_rejected_write_creates_nothing(tmp_path: Path) -> None:
    async with scripted(tmp_path, allow="reject") as harness:
        assert (await harness.use("write", path="deep/a.txt", text="x")).failed
        assert os.listdir(tmp_path) == []  # noqa: PTH208  # of an async function


async def test_write_replaces_a_file_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    async with scripted(tmp_path) as harness:
        await harness.use("read", path="a.txt")
        result = await harness.use("write", path="a.txt", text="new\n")
        assert result.text == "Wrote a.txt: 1 line."
        assert (tmp_path / "a.txt").read_text() == "new\n"


async def test_file_outside_is_written_with_permission(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    async with scripted(here) as harness:
        result = await harness.use("write", path="../a.txt", text="x")
        assert not result.failed, result.text
        assert (tmp_path / "a.txt").read_text() == "x"
        assert len(harness.asked) == 1
