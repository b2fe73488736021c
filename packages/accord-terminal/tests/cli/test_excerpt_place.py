"""The line numbers of excerpts: only where the file has the text once."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord.client.events import ToolCall
from accord.types.tool_calls import Diff
from accord_terminal.toolkit.text import Row
from accord_terminal.toolkit.tool_rows import MAX_FILE, limited_diff_rows, lines_before_diff

EXCERPT = ("three\nfour\n", "three\nFOUR\n")
OLD = "one\ntwo\nthree\nfour\nfive\n"
NEW = OLD.replace("four", "FOUR")


def place(folder: Path, text: str, old: str, new: str, status: str = "pending") -> int | None:
    file = folder / "a.txt"
    file.write_bytes(text.encode())
    return lines_before_diff(Diff(str(file), old, new), call(status), str(folder))


def call(status: str) -> ToolCall:
    return ToolCall(id="c", title="Edit", status=status)


@pytest.mark.parametrize("status", ["pending", "completed", "failed"])
@pytest.mark.parametrize("text", [OLD, NEW], ids=["old", "new"])
def test_excerpt_is_at_its_only_place(tmp_path: Path, text: str, status: str) -> None:
    assert place(tmp_path, text, *EXCERPT, status) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(OLD.replace("\n", "\r\n"), 2, id="returns"),
        pytest.param("\ufeff" + OLD, 2, id="mark of the byte order"),
        pytest.param("three\nfour", 0, id="whole file without an end of its last line"),
        pytest.param(OLD + OLD, None, id="two places"),
        pytest.param("three\nfour\n" + OLD, None, id="two places, one at the beginning"),
        pytest.param("three\nfourteen\n", None, id="part of a line"),
        pytest.param("other\n", None, id="changed since"),
        pytest.param("", None, id="empty"),
        pytest.param("one\n" * (MAX_FILE // 4) + OLD, None, id="too large"),
    ],
)
def test_place_is_only_named_if_it_is_certain(tmp_path: Path, text: str, found: int | None) -> None:
    assert place(tmp_path, text, *EXCERPT) == found


def test_overlapping_places_are_several(tmp_path: Path) -> None:
    assert place(tmp_path, "a\na\na\nb\n", "a\na\n", "c\n") is None


def test_first_status_decides_between_the_old_and_the_new_text(tmp_path: Path) -> None:
    text = "new\nsame\nold\n"
    assert place(tmp_path, text, "old\n", "new\n") == 2
    assert place(tmp_path, text, "old\n", "new\n", "completed") == 0


@pytest.mark.parametrize(
    ("text", "old", "new", "status"),
    [
        pytest.param("foo\nx\nfoo\nbar\n", "foo\n", "bar\n", "pending", id="old text twice"),
        pytest.param("bar\nx\nfoo\nbar\n", "foo\n", "bar\n", "completed", id="new text twice"),
        pytest.param("x\nbar\n", "", "bar\n", "pending", id="insertion of a line that exists"),
        pytest.param("x\nfoo\n", "foo\n", "", "completed", id="deletion of one of two lines"),
    ],
)
def test_other_text_is_not_searched_if_the_first_is_at_several_places(
    tmp_path: Path, text: str, old: str, new: str, status: str
) -> None:
    assert place(tmp_path, text, old, new, status) is None


def test_emptied_file_is_whole(tmp_path: Path) -> None:
    assert place(tmp_path, "", OLD, "", "completed") == 0
    (tmp_path / "a.txt").unlink()
    diff = Diff(str(tmp_path / "a.txt"), OLD, "")
    assert lines_before_diff(diff, call("completed"), str(tmp_path)) == 0


def test_file_that_is_binary_or_elsewhere_is_not_known(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "a.txt").write_text(OLD)
    (inside / "link.txt").symlink_to(tmp_path / "a.txt")
    (inside / "binary.txt").write_bytes(b"\xff" + OLD.encode())
    for path in ("../a.txt", str(tmp_path / "a.txt"), "link.txt", "binary.txt", ".", "\0"):
        assert lines_before_diff(Diff(path, *EXCERPT), call("pending"), str(inside)) is None
    assert lines_before_diff(Diff("a.txt", *EXCERPT), call("pending"), str(tmp_path)) == 2
    assert lines_before_diff(Diff("a.txt", *EXCERPT), call("pending"), None) is None


def test_patches_and_whole_files_have_their_own_numbers() -> None:
    for diff in (Diff("a", patch="@@ -7 +7 @@"), Diff("a", None, "x"), Diff("a", "x", None)):
        assert lines_before_diff(diff, call("pending"), "/nowhere") == 0


@pytest.mark.parametrize(
    ("text", "added"),
    [
        pytest.param(OLD, 2, id="once"),
        pytest.param(OLD + OLD, 0, id="twice"),
        pytest.param("three\nfour\n", 0, id="where it says"),
        pytest.param("other\n", 0, id="changed since"),
    ],
)
def test_patch_of_an_excerpt_is_moved_to_its_only_place(
    tmp_path: Path, text: str, added: int
) -> None:
    (tmp_path / "a.txt").write_text(text)
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n three\n-four\n+FOUR"
    assert lines_before_diff(Diff("a.txt", patch=patch), call("pending"), str(tmp_path)) == added


def test_patch_of_several_hunks_or_files_is_not_moved(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(OLD)
    hunk = "@@ -1,2 +1,2 @@\n three\n-four\n+FOUR\n"
    for patch in (hunk + "@@ -9 +9 @@\n-x\n+y", f"--- a\n+++ a\n{hunk}--- b\n+++ b\n{hunk}"):
        assert lines_before_diff(Diff("a.txt", patch=patch), call("pending"), str(tmp_path)) == 0


def shown(rows: list[Row]) -> list[str]:
    return [row.plain.rstrip() for row in rows]


def test_numbers_are_those_of_the_file_or_none() -> None:
    diff = Diff("a", *EXCERPT)
    assert shown(list(limited_diff_rows(diff, 2))) == [
        "    3   three",
        "    4 - four",
        "    4 + FOUR",
    ]
    assert shown(list(limited_diff_rows(diff, None))) == [
        "        three",
        "      - four",
        "      + FOUR",
    ]
