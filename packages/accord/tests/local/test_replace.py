"""A replaced file has the old text or the new text, whatever happens."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from accord.local.files import Roots

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes, limits and kills of POSIX")

SIZE = 300_000
ON_A_FULL_DISK = """
import resource, sys
from accord.local.files import Roots
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    Roots([sys.argv[1]]).write("a.txt", "new" * 10_000)
except OSError as error:
    print(type(error).__name__)
"""
WITHOUT_END = """
import sys
from accord.local.files import Roots
roots = Roots([sys.argv[1]])
print(flush=True)
while True:
    for letter in "ab":
        roots.write("a.txt", letter * int(sys.argv[2]))
"""


def test_full_disk_keeps_the_old_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    command = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "OSError\n"
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("seed", range(3))
def test_killed_writer_leaves_a_complete_text(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a" * SIZE)
    command = [sys.executable, "-c", WITHOUT_END, str(tmp_path), str(SIZE)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        until = time.monotonic() + random.Random(seed).uniform(0.0, 0.1)
        while time.monotonic() < until:
            assert len(set(file.read_bytes())) == 1  # readers never see a part of it
        writer.send_signal(signal.SIGKILL)
    finally:
        writer.kill()
        writer.wait(30)
        assert writer.stdout is not None
        writer.stdout.close()
    text = file.read_bytes()
    assert len(text) == SIZE
    assert len(set(text)) == 1


def test_mode_owner_and_attributes_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("old")
    file.chmod(0o750)
    attributes = {}
    if hasattr(os, "setxattr"):
        try:
            os.setxattr(file, "user.origin", b"here")
            attributes = {"user.origin": b"here"}
        except OSError:
            pass  # the file system does not support them
    before = file.stat()
    Roots([str(tmp_path)]).write("run.sh", "new")
    after = file.stat()
    assert stat.S_IMODE(after.st_mode) == 0o750
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    for name, value in attributes.items():
        assert os.getxattr(file, name) == value


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
@pytest.mark.parametrize(("mode", "left"), [(0o4755, 0o755), (0o6755, 0o755), (0o2644, 0o2644)])
def test_new_content_does_not_run_as_the_owner_of_the_old(
    tmp_path: Path, mode: int, left: int
) -> None:
    file = tmp_path / "program"
    file.write_text("old")
    file.chmod(mode)
    Roots([str(tmp_path)]).write(str(file), "new")
    assert file.stat().st_mode & 0o7777 == left


def test_new_file_has_the_default_mode(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        Roots([str(tmp_path)]).write("a.txt", "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_file_in_a_read_only_directory_is_written_in_place() -> None:
    """The directory's mode does not restrict root, so root writes as another user."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        in_a_closed_folder(base)


def in_a_closed_folder(base: Path) -> None:
    folder = base / "closed"
    folder.mkdir()
    file = folder / "a.txt"
    file.write_text("a longer old text")
    file.chmod(0o666)
    (folder / "mine.txt").write_text("old")
    (folder / "mine.txt").chmod(0o444)
    folder.chmod(0o555)
    code = """
import os, sys
from accord.local.files import Roots
import encodings.utf_8, __future__
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
roots = Roots([sys.argv[1]])
roots.write("a.txt", "new")
try:
    roots.write("mine.txt", "new")
except PermissionError:
    print("refused")
"""
    command = [sys.executable, "-c", code, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.stdout == "refused\n", done.stderr
        assert file.read_text() == "new"
        assert (folder / "mine.txt").read_text() == "old"
    finally:
        folder.chmod(0o755)


def test_link_that_appears_after_the_check_is_not_followed(tmp_path: Path) -> None:
    """The name is resolved first, so a link at the time of opening was put there in between."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "a").symlink_to(tmp_path / "secret")
    from accord.local.files import replace_file

    folder = os.open(root, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match=r".+"):
            replace_file(folder, "a", b"gotcha", lambda _: None)
    finally:
        os.close(folder)
    assert (tmp_path / "secret").read_text() == "secret"
    assert [entry.name for entry in root.iterdir()] == ["a"]


def test_new_file_is_created_atomically_and_overwrites_nothing(tmp_path: Path) -> None:
    roots = Roots([str(tmp_path)])
    roots.create("deep/a.txt", b"new")
    assert (tmp_path / "deep" / "a.txt").read_bytes() == b"new"
    assert (tmp_path / "deep" / "a.txt").stat().st_nlink == 1
    with pytest.raises(FileExistsError):
        roots.create("deep/a.txt", b"other")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    roots.create("link", b"where the link leads")
    assert (tmp_path / "nowhere").read_bytes() == b"where the link leads"
    assert {entry.name for entry in tmp_path.rglob("*")} == {"deep", "a.txt", "link", "nowhere"}


def test_unexpected_content_is_kept(tmp_path: Path) -> None:
    roots = Roots([str(tmp_path)])
    seen: list[bytes | None] = []

    def refuse(was: bytes | None) -> None:
        seen.append(was)
        raise ValueError("not this")

    (tmp_path / "a.txt").write_text("old")
    for name in ("a.txt", "missing.txt"):
        with pytest.raises(ValueError, match="not this"):
            roots.replace(name, b"new", expected=refuse)
    assert seen == [b"old", None]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"
