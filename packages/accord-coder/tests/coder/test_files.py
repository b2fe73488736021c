"""Text files: unsaved text of the client first, format kept, no overwrites of unread changes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from accord import PermissionRequest, RequestError
from accord_coder.files import LoadedText
from accord_coder.settings import Settings
from coder.harness import scripted
from quirk import quirk
from requirement import requirement

FORMS = {
    "crlf": (b"one\r\ntwo\r\n", b"one\r\n2\r\n"),
    "byte order mark": (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\n2\n"),
    "no last line end": (b"one\ntwo", b"one\n2"),
    "mixed line ends": (b"one\r\nx\ntwo\n", b"one\r\nx\n2\n"),
    "not ascii": ("eins ✓\ntwo\n".encode(), "eins ✓\n2\n".encode()),
}


class Editor:
    """The unsaved texts of a client."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.written: list[str] = []

    def read(self, path: str) -> str:
        name = Path(path).name
        if name not in self.texts:
            raise FileNotFoundError(path)
        return self.texts[name]

    def write(self, path: str, text: str) -> None:
        self.texts[Path(path).name] = text
        self.written.append(path)


def change(old: str = "two", new: str = "2") -> dict[str, str]:
    return {"old": old, "new": new}


@pytest.mark.parametrize("form", FORMS)
async def test_format_of_a_text_is_kept(form: str, tmp_path: Path) -> None:
    before, after = FORMS[form]
    (tmp_path / "a.txt").write_bytes(before)
    async with scripted(tmp_path) as harness:
        await harness.use("read", path="a.txt")
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert not result.failed, result.text
        assert (tmp_path / "a.txt").read_bytes() == after


async def test_line_endings_of_the_file_apply_to_new_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    async with scripted(tmp_path) as harness:
        assert (await harness.use("read", path="a.txt")).text == "one\ntwo\n"
        await harness.use("edit", path="a.txt", edits=[change("one\r\ntwo", "1\n2")])
        assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\r\n"
        await harness.use("write", path="a.txt", text="x\ny\n")
        assert (tmp_path / "a.txt").read_bytes() == b"x\r\ny\r\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
async def test_mode_and_hard_links_of_a_file_are_kept(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo two\n")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "other").hardlink_to(tmp_path / "run.sh")
    async with scripted(tmp_path, 1, allow="allow") as harness:
        await harness.use("read", path="run.sh")
        (asked,) = harness.asked
        assert asked.tool_call is not None
        await harness.use("edit", path="run.sh", edits=[change()])
        assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750
        assert (tmp_path / "other").read_text() == "echo 2\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")
async def test_file_with_another_hard_link_requires_permission(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("outside\n")
    (folder / "inside").hardlink_to(tmp_path / "secret")
    async with scripted(folder, allow="reject") as harness:
        for name, more in (("read", {}), ("write", {"text": "gotcha"})):
            result = await harness.use(name, path="inside", **more)
            assert result.failed
            assert "outside\n" not in result.text
        assert len(harness.asked) == 2
    assert (tmp_path / "secret").read_text() == "outside\n"


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_unread_file_is_not_changed(tool: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    given = {"edits": [change()]} if tool == "edit" else {"text": "new"}
    async with scripted(tmp_path) as harness:
        result = await harness.use(tool, path="a.txt", **given)
        assert result.failed
        assert "has not been read yet" in result.text
        assert harness.call.status == "failed"
        assert harness.asked == []
        assert (tmp_path / "a.txt").read_text() == "two\n"


async def test_file_that_changed_on_the_disk_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    async with scripted(tmp_path) as harness:
        await harness.use("read", path="a.txt")
        (tmp_path / "a.txt").write_text("two, changed\n")
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert "has changed since it was read" in result.text
        assert (tmp_path / "a.txt").read_text() == "two, changed\n"
        await harness.use("read", path="a.txt")
        assert not (await harness.use("edit", path="a.txt", edits=[change()])).failed
        assert (tmp_path / "a.txt").read_text() == "2, changed\n"


async def test_change_during_the_permission_request_is_not_overwritten(tmp_path: Path) -> None:
    def changed_meanwhile(_: object) -> str:
        (tmp_path / "a.txt").write_text("two, of the user\n")
        return "allow"

    (tmp_path / "a.txt").write_text("two\n")
    async with scripted(tmp_path, allow=changed_meanwhile) as harness:
        await harness.use("read", path="a.txt")
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert result.failed
        assert (tmp_path / "a.txt").read_text() == "two, of the user\n"


async def test_file_created_during_the_permission_request_is_kept(tmp_path: Path) -> None:
    def made_meanwhile(_: object) -> str:
        (tmp_path / "new.txt").write_text("of the user")
        return "allow"

    async with scripted(tmp_path, allow=made_meanwhile) as harness:
        result = await harness.use("write", path="new.txt", text="of the agent")
        assert result.failed
        assert (tmp_path / "new.txt").read_text() == "of the user"


async def test_own_changes_need_no_new_read(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        await harness.use("write", path="a.txt", text="two\n")
        assert not (await harness.use("edit", path="a.txt", edits=[change()])).failed
        assert not (await harness.use("edit", path="a.txt", edits=[change("2", "3")])).failed
        await harness.use("move", source="a.txt", target="b.txt")
        assert not (await harness.use("edit", path="b.txt", edits=[change("3", "4")])).failed
        assert (tmp_path / "b.txt").read_text() == "4\n"


async def test_unsaved_text_of_the_client_is_read_and_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n")
    editor = Editor(**{"a.txt": "unsaved two\n"})
    async with scripted(tmp_path, 1, files=editor) as harness:
        assert (await harness.use("read", path="a.txt")).text == "unsaved two\n"
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert not result.failed, result.text
        assert editor.texts["a.txt"] == "unsaved 2\n"
        assert (tmp_path / "a.txt").read_text() == "saved\n"
        assert not (await harness.use("edit", path="a.txt", edits=[change("2", "3")])).failed
        (tmp_path / "a.txt").write_text("unsaved 3\n")  # the client saves it
        assert not (await harness.use("edit", path="a.txt", edits=[change("3", "4")])).failed


async def test_text_typed_after_the_read_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    editor = Editor(**{"a.txt": "two\n"})
    async with scripted(tmp_path, 1, files=editor) as harness:
        await harness.use("read", path="a.txt")
        editor.texts["a.txt"] = "two and more\n"
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert "has changed since it was read" in result.text
        assert editor.written == []


async def test_change_on_disk_under_unsaved_text_is_detected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    editor = Editor(**{"a.txt": "two\n"})
    async with scripted(tmp_path, 1, files=editor) as harness:
        await harness.use("read", path="a.txt")
        (tmp_path / "a.txt").write_text("formatted\n")
        result = await harness.use("edit", path="a.txt", edits=[change()])
        assert "has changed since it was read" in result.text
        assert editor.written == []


async def test_file_of_the_client_only_or_of_the_disk_only_can_be_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk.txt").write_text("on the disk")
    editor = Editor(**{"new.txt": "in the editor"})
    async with scripted(tmp_path, 1, files=editor) as harness:
        assert (await harness.use("read", path="new.txt")).text == "in the editor"
        assert (await harness.use("read", path="disk.txt")).text == "on the disk"
        assert "does not exist" in (await harness.use("read", path="none.txt")).text


async def test_client_without_writes_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two\n")
    async with scripted(tmp_path, 1, files="ro") as harness:
        await harness.use("read", path="a.txt")
        assert not (await harness.use("edit", path="a.txt", edits=[change()])).failed
        assert (tmp_path / "a.txt").read_text() == "2\n"


async def test_unsaved_changes_are_neither_deleted_nor_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n")
    editor = Editor(**{"a.txt": "unsaved\n"})
    async with scripted(tmp_path, 1, files=editor) as harness:
        for result in (
            await harness.use("delete", path="a.txt"),
            await harness.use("move", source="a.txt", target="b.txt"),
        ):
            assert "unsaved changes" in result.text
        assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"caf\xe9\n"], ids=["binary", "latin-1"])
async def test_invalid_utf8_is_neither_read_nor_overwritten(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    async with scripted(tmp_path) as harness:
        read = await harness.use("read", path="a.bin")
        assert read.failed
        assert "binary" in read.text or "not text in UTF-8: byte 0xe9 at offset 3" in read.text
        assert (await harness.use("write", path="a.bin", text="x")).failed
        assert (tmp_path / "a.bin").read_bytes() == data


@pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")
@pytest.mark.parametrize("decision", ["allow", "reject"])
async def test_link_out_of_the_roots_requires_permission(decision: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "there.txt").write_text("two\n")
    (here / "link.txt").symlink_to(tmp_path / "there.txt")
    async with scripted(here, allow=decision) as harness:
        read = await harness.use("read", path="link.txt")
        edit = await harness.use("edit", path="link.txt", edits=[change()])
        assert read.failed is edit.failed is (decision == "reject")
        assert len(harness.asked) == 2
        written = "2\n" if decision == "allow" else "two\n"
        assert (tmp_path / "there.txt").read_text() == written
        assert (here / "link.txt").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")
async def test_link_changed_during_the_permission_request_is_not_followed(
    tmp_path: Path,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "fine.txt").write_text("fine")
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "private.txt").write_text("private")
    (here / "link").symlink_to(tmp_path / "notes.txt")

    def turned(_: object) -> str:
        (here / "link").unlink()
        (here / "link").symlink_to(tmp_path / "private.txt")
        return "allow"

    async with scripted(here, allow=turned) as harness:
        result = await harness.use("read", path="link")
        assert result.failed
        assert "private" not in result.text
        assert "outside" in result.text


async def test_lone_surrogate_is_rejected(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        (result,) = await harness.uses(("write", '{"path": "a.txt", "text": "\\ud800"}'))
        assert result.failed
        assert not (tmp_path / "a.txt").exists()


def test_single_line_has_no_line_endings_to_keep() -> None:
    loaded = LoadedText("/a", "one line")
    assert not loaded.is_crlf
    assert loaded.raw_of("a\nb") == "a\nb"


class Counting(Editor):
    """A client that answers with empty text for a missing file, and counts the requests."""

    def __init__(self, **texts: str) -> None:
        super().__init__(**texts)
        self.reads = 0

    def read(self, path: str) -> str:
        self.reads += 1
        return self.texts.get(Path(path).name, "")


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
async def test_new_file_can_be_written_if_the_client_reads_it_as_empty(
    mode: str, tmp_path: Path
) -> None:
    editor = Counting()
    settings = Settings(mode=mode)
    async with scripted(tmp_path, 1, files=editor, settings=settings) as harness:
        made = await harness.use("write", path="new.txt", text="one\n")
        assert not made.failed, made.text
        assert editor.texts["new.txt"] == "one\n"
        changed = await harness.use("write", path="new.txt", text="two\n")
        assert not changed.failed, changed.text
        assert (
            await harness.use("read", path="missing.txt")
        ).text == "The file missing.txt does not exist."


class Failing(Editor):
    """A client that answers reads of missing files, and perhaps writes, with its own errors."""

    def __init__(self, error: RequestError, **texts: str) -> None:
        super().__init__(**texts)
        self.error = error
        self.write_error: RequestError | None = None

    def read(self, path: str) -> str:
        if Path(path).name not in self.texts:
            raise self.error
        return super().read(path)

    def write(self, path: str, text: str) -> None:
        if self.write_error is not None:
            raise self.write_error
        super().write(path, text)


@quirk("missing-file-code")
@requirement("R-FS-04")
@pytest.mark.parametrize(
    "data",
    [
        "ENOENT: no such file or directory, open '/x/new.txt'",
        {"details": "File not found"},
        None,
    ],
)
async def test_new_file_can_be_written_whatever_error_the_client_reads_it_with(
    data: Any, tmp_path: Path
) -> None:
    editor = Failing(RequestError("Internal error", code=-32603, data=data))
    async with scripted(tmp_path, 1, files=editor) as harness:
        made = await harness.use("write", path="new.txt", text="one\n")
        assert not made.failed, made.text
        assert editor.texts["new.txt"] == "one\n"
        missing = await harness.use("read", path="missing.txt")
        assert missing.failed
        assert ("does not exist" in missing.text) is (data is not None)
        editor.write_error = RequestError("The disk is full", code=-32010)
        failed = await harness.use("write", path="other.txt", text="one\n")
        assert "The disk is full" in failed.text


async def test_file_that_the_client_cannot_read_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    editor = Failing(RequestError("Internal error", code=-32603))
    async with scripted(tmp_path, 1, files=editor) as harness:
        assert (await harness.use("write", path="a.txt", text="two\n")).failed
        assert not editor.written


async def test_change_reads_its_file_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    editor = Counting(**{"a.txt": "one\n"})
    settings = Settings(mode="acceptEdits")
    async with scripted(tmp_path, 1, files=editor, settings=settings) as harness:
        await harness.use("read", path="a.txt")
        for number, (tool, arguments) in enumerate(
            (
                ("edit", {"edits": [change("one", "two")]}),
                ("write", {"text": "three\n"}),
                ("edit", {"edits": [change("three", "four")]}),
            ),
            2,
        ):
            result = await harness.use(tool, path="a.txt", **arguments)
            assert not result.failed, result.text
            assert editor.reads == number
        editor.texts["a.txt"] = "changed by the user\n"
        assert (await harness.use("write", path="a.txt", text="x\n")).failed
        assert editor.texts["a.txt"] == "changed by the user\n"


async def test_unsaved_text_changed_during_the_permission_request_is_not_overwritten(
    tmp_path: Path,
) -> None:
    editor = Counting(**{"a.txt": "one\n"})

    def types_first(_: PermissionRequest) -> str:
        editor.texts["a.txt"] = "changed in the meantime\n"
        return "allow"

    async with scripted(tmp_path, 1, files=editor, allow=types_first) as harness:
        await harness.use("read", path="a.txt")
        assert (await harness.use("write", path="a.txt", text="x\n")).failed
        assert editor.texts["a.txt"] == "changed in the meantime\n"
