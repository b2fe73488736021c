"""Report files: checked before the run, then written atomically."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import click
import pytest

from accord_conformance.cli.report_files import check_directory, check_writable, write_atomically


def test_check_changes_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("as it was")
    check_writable({"--old": old, "--new": new, "--none": None})
    check_directory(tmp_path / "folder", "--trace")
    assert old.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "old"]


@pytest.mark.parametrize("name", ["none/report", "file/report"])
def test_unwritable_path_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(click.UsageError, match=r"--json: cannot write .*report"):
        check_writable({"--json": tmp_path / name})


def test_two_reports_in_one_file_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "report")
    with pytest.raises(click.UsageError, match="--html and --json name the same file"):
        check_writable({"--html": tmp_path / "report", "--json": tmp_path / "link"})


def test_file_is_replaced_atomically_with_its_mode(tmp_path: Path) -> None:
    file, link = tmp_path / "report", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    with file.open() as reader:
        write_atomically(link, b"new")
        assert reader.read() == "old"
    assert file.read_text() == "new"
    assert link.is_symlink()
    assert sys.platform == "win32" or file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "report"]


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    with pytest.raises(OSError):  # noqa: PT011  # which one depends on the system
        write_atomically(folder, b"new")
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such files")
def test_devices_are_written_to_and_not_replaced() -> None:
    check_writable({"--json": Path(os.devnull), "--html": Path(os.devnull)})
    write_atomically(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has modes")
@pytest.mark.parametrize("exists", [False, True])
def test_private_file_is_readable_by_its_owner_only(exists: bool, tmp_path: Path) -> None:
    file = tmp_path / "trace.ndjson"
    if exists:
        file.touch(0o644)
    write_atomically(file, b"secret", private=True)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"secret", 0o600)
    write_atomically(file, b"public")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
