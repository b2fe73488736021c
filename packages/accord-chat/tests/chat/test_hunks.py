"""Hunks of diffs: undone in the file as it is now, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.diffs import git_patch
from accord.types.tool_calls import Diff
from accord_chat.model.changes import Conflict, Review, hunks_of, lines_before, undo, undone_text

OLD = "".join(f"line {n}\n" for n in range(1, 31))
NEW = OLD.replace("line 5\n", "LINE 5\n").replace("line 20\n", "").replace("line 28\n", "28\nx\n")


def test_each_hunk_is_undone_alone() -> None:
    hunks = list(hunks_of(Diff("f", OLD, NEW)))
    assert len(hunks) == 3
    assert undone_text(hunks[0], NEW) == NEW.replace("LINE 5\n", "line 5\n")
    assert undone_text(hunks[1], NEW) == NEW.replace("line 19\n", "line 19\nline 20\n")
    assert undone_text(hunks[2], NEW) == NEW.replace("28\nx\n", "line 28\n")
    text = NEW
    for hunk in hunks:
        text = undone_text(hunk, text)
    assert text == OLD


def test_hunk_is_found_where_the_lines_have_moved() -> None:
    (hunk,) = hunks_of(Diff("f", "b\n", "B\n"))  # a diff of an excerpt
    assert undone_text(hunk, "1\n2\n3\nB\n4\n") == "1\n2\n3\nb\n4\n"


def test_lines_before_an_excerpt_are_counted() -> None:
    (hunk,) = hunks_of(Diff("f", "b\n", "B\n"))
    for text, before in (
        ("1\n2\n3\nB\n4\n", 3),
        ("1\nb\n4\n", 1),  # undone
        ("B\n", 0),
        ("1\n2\n", 0),  # not there
        ("B\nx\nB\n", 0),  # the first line, as it says
        ("1\nB\nB\n", 0),  # unknown
    ):
        assert lines_before(hunk, text) == before, text


def test_changed_lines_are_a_conflict() -> None:
    (hunk,) = hunks_of(Diff("f", "b\n", "B\n"))
    for text, why in (
        ("1\nb\n2\n", "undone already"),
        ("1\nother\n2\n", "changed since"),
        ("1\nB\n2\nB\n", "several times"),
    ):
        with pytest.raises(Conflict, match=why):
            undone_text(hunk, text)


def test_line_ends_of_windows_stay() -> None:
    (hunk,) = hunks_of(Diff("f", "a\nb\nc\n", "a\nB\nc\n"))
    assert undone_text(hunk, "a\r\nB\r\nc\r\n") == "a\r\nb\r\nc\r\n"


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), max_size=12)


@given(LINES, LINES)
def test_undoing_all_hunks_gives_the_old_text_or_a_conflict(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    text = after
    try:
        for hunk in reversed(list(hunks_of(Diff("f", before, after)))):
            text = undone_text(hunk, text)
    except Conflict:
        return
    assert text.split("\n") == before.split("\n") or text.rstrip("\n") == before.rstrip("\n")


def test_created_and_deleted_files_are_undone(tmp_path: Path) -> None:
    roots = Roots([str(tmp_path)])
    made, gone = tmp_path / "made", tmp_path / "gone"
    made.write_text("new\n")
    (created,) = hunks_of(Diff(str(made), None, "new\n"))
    (deleted,) = hunks_of(Diff(str(gone), "old\n", None))
    undo(created, roots)
    undo(deleted, roots)
    assert not made.exists()
    assert gone.read_text() == "old\n"
    made.write_text("changed\n")
    with pytest.raises(Conflict):
        undo(created, roots)
    with pytest.raises(Conflict):
        undo(deleted, roots)


@pytest.mark.parametrize("text", ["one\n\ntwo\n", "one\ntwo", "--- one\n+++ two\n"])
def test_created_and_deleted_files_of_patches_are_undone(tmp_path: Path, text: str) -> None:
    roots = Roots([str(tmp_path)])
    made, gone = str(tmp_path / "made"), str(tmp_path / "gone")
    Path(made).write_text(text)
    (created,) = hunks_of(Diff(made, patch=git_patch(made, None, text)))
    (deleted,) = hunks_of(Diff(gone, patch=git_patch(gone, text, None)))
    undo(created, roots)
    undo(deleted, roots)
    assert not Path(made).exists()
    assert Path(gone).read_text() == text


def test_file_whose_new_text_is_empty_is_undone_if_it_is_gone(tmp_path: Path) -> None:
    roots, file = Roots([str(tmp_path)]), tmp_path / "f"
    (hunk,) = hunks_of(Diff(str(file), "old\n", ""))  # v1 has no deleted files
    undo(hunk, roots)
    assert file.read_text() == "old\n"
    file.write_text("")
    undo(hunk, roots)
    assert file.read_text() == "old\n"


def test_patch_of_several_files_is_not_a_whole_file() -> None:
    patch = git_patch("a", "old\n", None) + git_patch("b", "1\n", "2\n")
    assert {hunk.kind for hunk in hunks_of(Diff("a", patch=patch, others=("b",)))} == {"changed"}


def test_files_outside_of_the_folder_are_never_written(tmp_path: Path) -> None:
    folder, secret = tmp_path / "in", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("B\n")
    (folder / "link").symlink_to(secret)
    for path in (str(secret), "../secret", "link"):
        (hunk,) = hunks_of(Diff(path, "b\n", "B\n"))
        with pytest.raises((AccordError, OSError)):
            undo(hunk, Roots([str(folder)]))
    assert secret.read_text() == "B\n"


@pytest.mark.parametrize(
    "ended", [{"status": "completed"}, {"status": "in_progress", "unfinished": True}]
)
def test_hunk_rejected_before_the_change_is_undone_after_it(tmp_path: Path, ended: Any) -> None:
    file = tmp_path / "f"
    file.write_text("b\n")
    call = ToolCall(id="1", content=(Diff(str(file), "b\n", "B\n"),), status="in_progress")
    review = Review([str(tmp_path)])
    (one,) = review.hunks([call])
    assert review.reject(one) == "waiting"
    file.write_text("B\n")
    done = ToolCall(id="1", content=call.content, **ended)
    ((_, verdict, _),) = review.finished(done)
    assert verdict == "rejected"
    assert file.read_text() == "b\n"


def test_change_that_was_not_made_is_not_undone(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("B\n")  # by the user
    call = ToolCall(id="1", content=(Diff(str(file), "b\n", "B\n"),), status="in_progress")
    review = Review([str(tmp_path)])
    (one,) = review.hunks([call])
    review.reject(one)
    assert review.finished(ToolCall(id="1", content=call.content, status="failed")) == []
    assert file.read_text() == "B\n"
