"""Listing, finding, moving and deleting files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord import Diff, ToolCallLocation
from accord_coder.search import matcher, walk
from coder.harness import BOTH, scripted

LINKS = pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "b.py",
        "src/a.py",
        "src/a.ts",
        "src/deep/c.py",
        ".git/config",
        "out/x.py",
        ".x.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / ".gitignore").write_text("/out/\n")
    return tmp_path


def below(top: Path, *, ignored: bool = False) -> list[str]:
    return [entry.path for entry in walk(str(top)) if ignored or not entry.is_ignored]


async def test_list_returns_one_path_per_line(tree: Path) -> None:
    async with scripted(tree) as harness:
        result = await harness.use("list")
        assert result.text == ".gitignore\n.x.py\nb.py\nout/\nsrc/"
        assert harness.call.kind == "search"
        assert harness.call.locations == (ToolCallLocation(str(tree)),)
        deep = await harness.use("list", path="src", depth=2)
        assert deep.text == "src/a.py\nsrc/a.ts\nsrc/deep/\nsrc/deep/c.py"
        assert harness.asked == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
async def test_name_with_newlines_or_escapes_is_one_line_and_can_be_used(tmp_path: Path) -> None:
    name = "a\nREADME.md\x1b[2J.txt"
    (tmp_path / name).write_text("here\n")
    shown = '"a\\nREADME.md\\u001b[2J.txt"'
    async with scripted(tmp_path) as harness:
        assert (await harness.use("list")).text == shown
        assert (await harness.use("glob", pattern="*.txt")).text == shown
        assert (await harness.use("grep", pattern="here")).text == f"{shown}:1: here"
        assert (await harness.use("read", path=name)).text == "here\n"
        assert harness.call.title == f"Read {shown}"


async def test_list_reports_an_empty_directory_and_a_file(tree: Path) -> None:
    (tree / "empty").mkdir()
    async with scripted(tree) as harness:
        assert (await harness.use("list", path="b.py")).text == "b.py is a file."
        assert (await harness.use("list", path="none")).text == "The directory none does not exist."
        assert (await harness.use("list", path="empty")).text == "[The directory is empty.]"


async def test_glob_finds_by_pattern(tree: Path) -> None:
    async with scripted(tree) as harness:
        for pattern, found in [
            ("*.py", ".x.py\nb.py\nsrc/a.py\nsrc/deep/c.py"),
            ("src/*.py", "src/a.py"),
            ("src/**/*.py", "src/a.py\nsrc/deep/c.py"),
            ("**/a.{py,ts}", "src/a.py\nsrc/a.ts"),
            ("?.py", "b.py\nsrc/a.py\nsrc/deep/c.py"),
            ("[!a].py", "b.py\nsrc/deep/c.py"),
            ("deep/", "src/deep/"),
            ("*.rs", "[No path matches.]"),
        ]:
            assert (await harness.use("glob", pattern=pattern)).text == found, pattern


async def test_glob_is_limited(tmp_path: Path) -> None:
    for number in range(1005):
        (tmp_path / f"{number}.txt").touch()
    async with scripted(tmp_path, 1) as harness:
        result = await harness.use("glob", pattern="*.txt")
        assert result.text.splitlines()[1000:] == ["[1000 of 1005 paths]"]


def test_ignore_files_apply_as_in_git(tmp_path: Path) -> None:
    names = "a.log keep.log build/x lib/build/x docs/a.html docs/deep/a.html n/#x s/t.o".split()  # noqa: SIM905
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / ".gitignore").write_text(
        "# comment\n\n*.log\n!keep.log\n/build\ndocs/*.html\n\\#x\nt.o   \n"
    )
    (tmp_path / "docs" / ".gitignore").write_text("!a.html\ndeep/\n")
    files = [path for path in below(tmp_path) if (tmp_path / path).is_file()]
    assert files == [
        ".gitignore",
        "docs/.gitignore",
        "docs/a.html",
        "keep.log",
        "lib/build/x",
    ]


def test_ignore_files_apply_up_to_the_repository_root(tmp_path: Path) -> None:
    repository = tmp_path / "outer" / "repository"
    (repository / "sub").mkdir(parents=True)
    (repository / ".git").mkdir()
    (tmp_path / "outer" / ".gitignore").write_text("*\n")
    (repository / ".gitignore").write_text("*.log\n")
    for name in ("a.log", "a.txt"):
        (repository / "sub" / name).write_text("")
    assert below(repository / "sub") == ["a.txt"]


@LINKS
def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "none")
    assert below(tmp_path) == ["broken", "loop"]


def test_unclosed_braces_are_literal() -> None:
    assert matcher("{a,b}{c,d}")("bc")
    assert not matcher("a{b")("ab")
    assert matcher("a{b")("a{b")


# Moving and deleting.


async def test_move_renames_and_creates_directories(tree: Path) -> None:
    async with scripted(tree) as harness:
        result = await harness.use("move", source="b.py", target="new/c.py")
        assert result.text == "Moved b.py to new/c.py."
        assert (tree / "new" / "c.py").exists()
        assert not (tree / "b.py").exists()
        assert harness.call.kind == "move"
        assert harness.call.locations == (
            ToolCallLocation(str(tree / "b.py")),
            ToolCallLocation(str(tree / "new" / "c.py")),
        )
        assert len(harness.asked) == 1


async def test_impossible_move_changes_nothing(tree: Path) -> None:
    (tree / "b.py").write_text("b")
    async with scripted(tree) as harness:
        for source, target, reason in (
            ("b.py", "src/a.py", "already exists"),
            ("none", "new", "does not exist"),
            ("src", "src/deep/src", "into itself"),
            (".", "new", "one of the session's directories itself"),
        ):
            result = await harness.use("move", source=source, target=target)
            assert result.failed
            assert reason in result.text
        assert (tree / "b.py").read_text() == "b"
        assert (tree / "src" / "a.py").read_text() == ""


@BOTH
async def test_delete_shows_what_is_deleted(version: int, tree: Path) -> None:
    (tree / "b.py").write_text("old\n")
    async with scripted(tree, version) as harness:
        result = await harness.use("delete", path="b.py")
        assert result.text == "Deleted b.py."
        assert not (tree / "b.py").exists()
        assert harness.call.kind == "delete"
        (request,) = harness.asked
        assert request.tool_call is not None
        assert [type(part) for part in request.tool_call.content] == [Diff]


async def test_rejected_delete_deletes_nothing(tree: Path) -> None:
    async with scripted(tree, allow="reject") as harness:
        assert (await harness.use("delete", path="b.py")).failed
        assert (await harness.use("move", source="b.py", target="c.py")).failed
        assert (tree / "b.py").exists()


async def test_delete_accepts_empty_directories_only(tree: Path) -> None:
    (tree / "empty").mkdir()
    async with scripted(tree) as harness:
        assert not (await harness.use("delete", path="empty")).failed
        full = await harness.use("delete", path="src")
        assert "not empty" in full.text
        assert (tree / "src" / "a.py").exists()
        assert "does not exist" in (await harness.use("delete", path="none")).text


@LINKS
async def test_delete_of_a_link_keeps_its_target(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "a.txt").write_text("a")
    (here / "link").symlink_to(tmp_path / "a.txt")
    async with scripted(here) as harness:
        result = await harness.use("delete", path="link")
        assert not result.failed, result.text
        assert not (here / "link").is_symlink()
        assert (tmp_path / "a.txt").exists()


async def test_missing_path_is_an_error_without_a_permission_request(tree: Path) -> None:
    async with scripted(tree, allow="reject") as harness:
        for name, arguments, why in [
            ("delete", {"path": "nothing.txt"}, "The file nothing.txt does not exist."),
            (
                "move",
                {"source": "nothing.txt", "target": "b.txt"},
                "The file nothing.txt does not exist.",
            ),
            ("move", {"source": "b.py", "target": "src"}, "src already exists. Nothing was moved."),
            ("read", {"path": ".env"}, "The file .env does not exist."),
            (
                "edit",
                {"path": "nothing.txt", "edits": [{"old": "a", "new": "b"}]},
                "The file nothing.txt does not exist.",
            ),
        ]:
            result = await harness.use(name, **arguments)
            assert harness.asked == [], name
            assert result.text == why, name
            assert harness.call.status == "failed", name


async def test_existence_outside_is_not_revealed_without_permission(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    async with scripted(tree, allow="reject") as harness:
        result = await harness.use("delete", path=str(elsewhere / "nothing.txt"))
        assert len(harness.asked) == 1
        assert result.text == "Permission was not given: the client rejected the request."


@LINKS
async def test_dangling_link_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    async with scripted(tmp_path) as harness:
        assert (await harness.use("delete", path="link")).text == "Deleted link."
