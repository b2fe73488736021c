"""Files below roots: reads and writes never leave them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord.local.files import HardLinked, OutsideRoots, Roots, lines_of, real_path
from requirement import requirement

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    return root


def test_file_is_read_and_written_with_its_line_endings(root: Path) -> None:
    roots = Roots([str(root)])
    roots.write("a.txt", "one\r\ntwo\n")
    assert (root / "a.txt").read_bytes() == b"one\r\ntwo\n"
    assert roots.read(str(root / "a.txt")) == "one\r\ntwo\n"
    roots.write("a.txt", "x")
    assert (root / "a.txt").read_bytes() == b"x"


def test_missing_parents_are_created(root: Path) -> None:
    Roots([str(root)]).write("deep/er/a.txt", "x")
    assert (root / "deep" / "er" / "a.txt").read_text() == "x"


@requirement("R-DIR-05", "R-DIR-09")
def test_relative_paths_are_below_the_first_root(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    roots = Roots([str(root), str(other)])
    roots.write("a.txt", "here")
    roots.write(str(other / "a.txt"), "there")
    assert (root / "a.txt").read_text() == "here"
    assert roots.read(str(other / "a.txt")) == "there"


@requirement("R-DIR-10")
@pytest.mark.parametrize("path", ["../secret", "link", "folder/secret", "/etc/hostname"])
def test_no_path_leads_outside(root: Path, tmp_path: Path, path: str) -> None:
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    roots = Roots([str(root)])
    with pytest.raises(OutsideRoots):
        roots.read(path)
    with pytest.raises(OutsideRoots):
        roots.write(path, "gotcha")
    assert (tmp_path / "secret").read_text() == "secret"


@requirement("R-DIR-10")
def test_directory_whose_name_starts_with_the_name_of_a_root_is_outside(
    tmp_path: Path, root: Path
) -> None:
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "a").write_text("no")
    with pytest.raises(OutsideRoots):
        Roots([str(root)]).read(str(tmp_path / "root2" / "a"))


def test_link_inside_is_followed(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("x")
    (root / "link").symlink_to(root / "a")
    (tmp_path / "alias").symlink_to(root)
    assert Roots([str(root)]).read("link") == "x"
    assert Roots([str(tmp_path / "alias")]).read("a") == "x"


@requirement("R-DIR-10")
def test_link_that_appears_after_the_check_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").mkdir()
    (root / "a" / "secret").write_text("mine")

    def then_swap(path: str) -> str:
        found = real_path(path)
        if found.endswith("secret"):
            (root / "a").rename(root / "b")
            (root / "a").symlink_to(tmp_path)
        return found

    roots = Roots([str(root)])
    monkeypatch.setattr("accord.local.files.real_path", then_swap)
    with pytest.raises(OSError, match=r".+"):
        roots.read("a/secret")


@requirement("R-DIR-10")
def test_real_path_equals_that_of_the_standard_library(root: Path, tmp_path: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file").write_text("x")
    (root / "inside").symlink_to("folder")
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("nowhere")
    names = ["", "folder", "folder/file", "inside", "inside/file", "out/secret", "loop", "loop/x"]
    names += [
        "dangling",
        "dangling/x",
        "missing/x",
        "folder/file/x",
        "inside/../out",
        "folder//file",
    ]
    for name in names:
        path = f"{root}/{name}"
        for text in (path, f"/{path}", f"//{path}", os.path.relpath(path)):
            assert real_path(text) == os.path.realpath(text), text
    assert [real_path(text) for text in ("/", "//", "/.")] == ["/"] * 3


def test_special_file_is_rejected_without_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    roots = Roots([str(root)])
    for name in ("pipe", "folder", "."):
        with pytest.raises(OSError, match=r".+"):
            roots.read(name)
        with pytest.raises(OSError, match=r".+"):
            roots.write(name, "x")


def test_missing_file_is_an_error(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Roots([str(root)]).read("a")


PARTS = [
    (None, None, "a\nb\r\n\x0cc"),
    (1, None, "a\nb\r\n\x0cc"),
    (0, 1, "a\n"),
    (2, 1, "b\r\n"),
    (3, 5, "\x0cc"),
    (4, None, ""),
    (None, 0, ""),
]


@requirement("R-FS-03")
def test_lines_are_counted_from_1() -> None:
    for line, limit, found in PARTS:
        assert lines_of("a\nb\r\n\x0cc", line, limit) == found, (line, limit)


def test_permission_for_an_outside_path_covers_only_that_file(root: Path, tmp_path: Path) -> None:
    also: set[str] = set()
    roots = Roots([str(root)], also=also)
    with pytest.raises(OutsideRoots):
        roots.read("../secret")
    also.add(os.path.realpath(tmp_path / "secret"))
    assert roots.read("../secret") == "secret"
    (tmp_path / "other").write_text("other")
    with pytest.raises(OutsideRoots):
        roots.read("../other")


def test_removing_a_link_keeps_its_target(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "empty").mkdir()
    roots = Roots([str(root)])
    roots.remove("link")
    roots.remove("empty")
    assert list(root.iterdir()) == []
    assert (tmp_path / "secret").exists()


def test_full_directory_root_and_outside_path_are_not_removed(root: Path) -> None:
    (root / "full").mkdir()
    (root / "full" / "a.txt").write_text("a")
    (root / "out").symlink_to(root.parent)
    roots = Roots([str(root)])
    with pytest.raises(OSError, match="not empty"):
        roots.remove("full")
    for path in (".", "../secret", "out/secret"):
        with pytest.raises(OutsideRoots):
            roots.remove(path)


def test_move_creates_directories_and_overwrites_nothing(root: Path) -> None:
    (root / "a.txt").write_text("a")
    (root / "b.txt").write_text("b")
    roots = Roots([str(root)])
    with pytest.raises(FileExistsError):
        roots.move("a.txt", "b.txt")
    with pytest.raises(FileNotFoundError):
        roots.move("none.txt", "new.txt")
    with pytest.raises(OutsideRoots):
        roots.move("a.txt", "../a.txt")
    roots.move("a.txt", "deep/er/a.txt")
    assert (root / "deep" / "er" / "a.txt").read_text() == "a"
    assert (root / "b.txt").read_text() == "b"


@requirement("R-DIR-10")
def test_file_with_several_hard_links_is_rejected_unless_allowed(
    root: Path, tmp_path: Path
) -> None:
    os.link(tmp_path / "secret", root / "inside")
    also: set[str] = set()
    roots = Roots([str(root)], also=also)
    for refused in (roots.resolve, roots.read, roots.open, lambda path: roots.write(path, "x")):
        with pytest.raises(HardLinked):
            refused("inside")
    assert (tmp_path / "secret").read_text() == "secret"
    also.add(os.path.realpath(root / "inside"))
    assert roots.read("inside") == "secret"
    roots.write("inside", "allowed")
    assert (tmp_path / "secret").read_text() == "allowed"
    roots.remove("inside")
    assert (tmp_path / "secret").read_text() == "allowed"


@requirement("R-DIR-10")
def test_root_that_is_replaced_by_a_link_later_is_not_followed(root: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    roots = Roots([str(root), str(second)])
    second.rmdir()
    second.symlink_to(tmp_path)
    with pytest.raises(OutsideRoots):
        roots.read(str(second / "secret"))


BAD_PATHS = [
    "a\0b",
    "\0",
    "/\0",
    "x" * 5000,
    "x/" * 3000,
    "../" * 2000 + "etc",
    "\ud800",
    "x" * 300,
]


@pytest.mark.parametrize("path", BAD_PATHS, ids=range(len(BAD_PATHS)))
def test_text_that_is_not_a_path_is_an_os_error(root: Path, path: str) -> None:
    roots = Roots([str(root)])
    (root / "a").write_text("a")
    for use in (
        roots.read,
        roots.open,
        roots.remove,
        lambda path: roots.write(path, "x"),
        lambda path: roots.move("a", path),
        lambda path: roots.move(path, "b"),
    ):
        with pytest.raises(OSError, match=r".+"):
            use(path)
    assert [entry.name for entry in root.iterdir()] == ["a"]
    if len(path) != 300:  # on another file system this can be a valid name of a new file
        with pytest.raises(OSError, match=r".+"):
            roots.resolve(path)
        with pytest.raises(OSError, match=r".+"):
            Roots([path])


def test_links_in_a_path_that_is_too_long_are_resolved(root: Path, tmp_path: Path) -> None:
    """`realpath` keeps links if the path up to them is too long to examine."""
    (root / "d").mkdir()
    (root / "d" / "out").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r".+"):
        Roots([str(root)]).resolve("d/./" * 1200 + "out/secret")
