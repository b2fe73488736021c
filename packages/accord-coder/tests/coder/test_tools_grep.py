"""Searching: the same lines with ripgrep and without it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from accord import ToolCallLocation
from accord_coder.tools.grep import Matches
from coder.harness import scripted

RIPGREP = shutil.which("rg")
WAYS = pytest.mark.parametrize(
    "way",
    [
        "own",
        pytest.param(
            "ripgrep", marks=pytest.mark.skipif(RIPGREP is None, reason="there is no ripgrep")
        ),
    ],
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "a.py": b"one\ntwo\nthree\ntwo again\n",
        "sub/b.txt": b"Two\r\nx\r\ntwo\r\n",
        "sub.txt": b"two",
        ".hidden": b"two\n",
        ".git/x": b"two\n",
        "out/c.py": b"two\n",
        "binary": b"two\n\0",
        "latin": b"two caf\xe9\n",
        ".env": b"KEY=two\n",
        ".gitignore": b"out\n",
        ".ignore": b"a.py\n",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if os.name != "nt":
        (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    return tmp_path


def without_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = os.environ["PATH"].split(os.pathsep)
    there = [folder for folder in folders if shutil.which("rg", path=folder) is None]
    monkeypatch.setenv("PATH", os.pathsep.join(there))


@pytest.fixture(autouse=True)
def _chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "way" in request.fixturenames and request.getfixturevalue("way") == "own":
        without_ripgrep(monkeypatch)


EVERYWHERE = """\
.hidden:1: two
a.py:2: two
a.py:4: two again
latin:1: two caf�
sub/b.txt:3: two
sub.txt:1: two
[not shown, as they may hold secrets: .env]"""


@WAYS
async def test_grep_returns_lines_with_path_and_number(way: str, tree: Path) -> None:
    async with scripted(tree) as harness:
        result = await harness.use("grep", pattern="two")
        assert result.text == EVERYWHERE
        assert harness.call.kind == "search"
        assert harness.call.title == "Search for two"
        assert harness.call.locations[1] == ToolCallLocation(str(tree / "a.py"), 2)
        assert harness.call.raw_output["matches"] == 6
        assert harness.asked == []


@WAYS
async def test_grep_searches_a_directory_a_file_or_a_glob(way: str, tree: Path) -> None:
    async with scripted(tree) as harness:
        folder = await harness.use("grep", pattern="^two$", path="sub", ignore_case=True)
        assert folder.text == "sub/b.txt:1: Two\nsub/b.txt:3: two"
        file = await harness.use("grep", pattern="t.o", path="a.py", limit=1)
        assert file.text == "a.py:2: two\n[the first 1 match; there are more]"
        names = await harness.use("grep", pattern="two", glob="*.txt")
        assert names.text == "sub/b.txt:3: two\nsub.txt:1: two"
        paths = await harness.use("grep", pattern="two", glob="sub/*")
        assert paths.text == "sub/b.txt:3: two"
        assert (await harness.use("grep", pattern="none of that")).text == "[no matches]"
        ignored = await harness.use("grep", pattern="two", path="out")
        assert ignored.text == "out/c.py:1: two"


@WAYS
async def test_grep_shows_context_lines(way: str, tree: Path) -> None:
    (tree / "c.txt").write_text("".join(f"{n}\n" for n in range(10)))
    async with scripted(tree) as harness:
        result = await harness.use("grep", pattern="[27]", path="c.txt", context=1)
        assert result.text == (
            "c.txt-2- 1\nc.txt:3: 2\nc.txt-4- 3\n--\nc.txt-7- 6\nc.txt:8: 7\nc.txt-9- 8"
        )


@WAYS
async def test_secret_file_is_searched_by_name_with_permission(way: str, tree: Path) -> None:
    async with scripted(tree) as harness:
        assert (await harness.use("grep", pattern="two", path=".env")).text == ".env:1: KEY=two"
        assert len(harness.asked) == 1


@WAYS
async def test_invalid_expression_and_missing_path_are_errors(way: str, tree: Path) -> None:
    async with scripted(tree) as harness:
        bad = await harness.use("grep", pattern="(")
        assert bad.failed
        assert "pattern is not valid" in bad.text
        assert (await harness.use("grep", pattern="x", path="none")).text == "none does not exist."


@WAYS
async def test_grep_stops_at_its_limit(way: str, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}.txt").write_text("x\n" * 10_000)
    async with scripted(tmp_path, 1) as harness:
        result = await harness.use("grep", pattern="x", limit=3)
        assert result.text.splitlines() == [
            "00.txt:1: x",
            "00.txt:2: x",
            "00.txt:3: x",
            "[the first 3 matches; there are more]",
        ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take UTF-8 alone")
@WAYS
async def test_file_names_that_are_not_utf8_are_shown_approximately(
    way: str, tmp_path: Path
) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("two\n")
    (tmp_path / "café").mkdir()
    (tmp_path / "café" / "b.txt").write_text("two\n")
    async with scripted(tmp_path) as harness:
        assert (await harness.use("list")).text == "café/\ncaf\ufffd.txt"
        found = await harness.use("grep", pattern="two")
        assert found.text == "café/b.txt:1: two\ncaf\ufffd.txt:1: two"


@pytest.mark.skipif(os.name == "nt", reason="a script replaces ripgrep")
async def test_endless_search_is_ended_by_a_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, program = tmp_path / "pipe", tmp_path / "bin" / "rg"
    os.mkfifo(pipe)
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {pipe}\nexec sleep 1000\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    async with scripted(tmp_path) as harness:
        async with harness.using("grep", pattern="x") as turn:
            pid = int(await asyncio.to_thread(pipe.read_text))
            await turn.cancel()
        assert harness.stop_reason == "cancelled"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes")
async def test_slow_expression_does_not_block_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ripgrep(monkeypatch)
    (tmp_path / "a.txt").write_text("a" * 60)
    async with scripted(tmp_path) as harness:
        async with harness.using("grep", pattern="(a+)+b") as turn:
            async for _ in turn:
                if harness.calls and harness.call.status == "in_progress":
                    break
            await turn.cancel()
        assert harness.stop_reason == "cancelled"


def matches(limit: int = 10) -> Matches:
    return Matches(limit, shown=str, wanted=lambda path: path != "no", on_full=lambda: None)


def test_output_can_arrive_in_any_pieces() -> None:
    found = matches()
    whole = (
        b'{"type":"begin","data":{"path":{"text":"a"}}}\n'
        b'{"type":"match","data":{"path":{"text":"a"},"lines":{"bytes":"/w=="},"line_number":2}}\n'
        b'{"type":"end","data":{"path":{"text":"a"},"binary_offset":null}}\n'
        b'{"type":"summary","data":{}}\n'
    )
    for at in range(len(whole)):
        found.feed(whole[at : at + 1])
    assert found.lines == ["a:2: \ufffd"]


def test_binary_files_excluded_files_and_long_lines_are_omitted() -> None:
    found = matches()
    for path, offset in (("bin", 7), ("no", None), ("yes", None)):
        named = b'"path":{"text":"%b"}' % path.encode()
        line = b"x" * 600
        found.feed(b'{"type":"begin","data":{%b}}\n' % named)
        found.feed(
            b'{"type":"match","data":{%b,"lines":{"text":"%b\\n"},"line_number":1}}\n'
            % (named, line)
        )
        end = b"null" if offset is None else b"%d" % offset
        found.feed(b'{"type":"end","data":{%b,"binary_offset":%b}}\n' % (named, end))
    assert found.lines == [f"yes:1: {'x' * 500}…"]
    found.feed(b"not json\n")
    assert found.error == "not json\n"
