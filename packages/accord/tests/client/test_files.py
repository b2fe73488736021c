"""Files of a client: limits on their place, size and number."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from accord import InvalidParams
from accord.client.agent_adapter import SessionSetup
from accord.client.files import ClientFiles, Files, restrict_to_parent
from client.test_handlers import reading, working, writing
from client.wire_agents import Speaker, agent_by_hand, opened
from quirk import quirk
from raw_peer import cancel, request
from requirement import requirement

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, holes and long paths of POSIX")


async def text_of(files: ClientFiles, setup: SessionSetup, path: str) -> str:
    """Read a file, with a task or without."""
    text = files.read(setup, path, None, None)
    return text if isinstance(text, str) else await text


@requirement("R-FS-03")
async def test_line_of_a_huge_file_can_be_read_but_not_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"first\nsecond\n")
    os.truncate(tmp_path / "huge", 1 << 42)

    async def script(speaker: Speaker) -> None:
        for _ in range(20):
            found = await speaker.client.read_text_file(reading(tmp_path / "huge", line=2, limit=1))
            assert found.content == "second\n"
        with pytest.raises(InvalidParams, match="16 MiB in one read"):
            await speaker.client.read_text_file(reading(tmp_path / "huge"))

    async with working(script, tmp_path, files="rw"):
        pass


@requirement("R-DIR-10", "R-DIR-12")
async def test_file_with_several_hard_links_is_rejected(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", roots / "a")

    async def script(speaker: Speaker) -> None:
        with pytest.raises(InvalidParams, match="further names"):
            await speaker.client.read_text_file(reading(roots / "a"))
        with pytest.raises(InvalidParams, match="further names"):
            await speaker.client.write_text_file(writing(roots / "a", "gotcha"))

    async with working(script, roots, files="rw"):
        pass
    assert (tmp_path / "secret").read_text() == "secret"


@requirement("R-DIR-10", "R-DIR-12")
async def test_cwd_that_the_agent_replaces_by_a_link_is_not_followed(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    (tmp_path / "secret").write_text("secret")

    async def script(speaker: Speaker) -> None:
        roots.rmdir()
        roots.symlink_to(tmp_path)
        with pytest.raises(InvalidParams, match="outside"):
            await speaker.client.read_text_file(reading(roots / "secret"))

    async with working(script, roots, files="rw"):
        pass


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 5000, "/\udc00"], ids=["nul", "long", "odd"])
async def test_text_that_is_not_a_path_is_an_invalid_parameter(tmp_path: Path, path: str) -> None:
    setup = SessionSetup(cwd=str(tmp_path), real_directories=(str(tmp_path),))
    server = ClientFiles("rw")
    with pytest.raises(InvalidParams):
        await text_of(server, setup, path)
    with pytest.raises(InvalidParams):
        await server.write(setup, path, "x")


@requirement("R-SUBAG-09", "R-DIR-12")
async def test_subagent_reads_no_file_outside_of_its_parents_directories(tmp_path: Path) -> None:
    inside, sibling = tmp_path / "inside", tmp_path / "inside2"
    for folder in (inside, sibling):
        folder.mkdir()
        (folder / "a").write_text("a")
    (inside / "child").mkdir()
    (inside / "child" / "a").write_text("child")
    (inside / "out").symlink_to(sibling)
    parent = SessionSetup(cwd=str(inside), real_directories=(str(inside),))
    server = ClientFiles("rw")
    child = restrict_to_parent(SessionSetup(cwd=str(inside / "child")), parent)
    assert await text_of(server, child, str(inside / "child" / "a")) == "child"
    for cwd in ("/", str(tmp_path), str(sibling), str(inside / "out"), "\0"):
        child = restrict_to_parent(SessionSetup(cwd=cwd), parent)
        for path in (inside / "a", sibling / "a"):
            with pytest.raises(InvalidParams):
                await text_of(server, child, str(path))


class SlowTexts:
    """A text source that must be awaited."""

    async def read(self, path: str) -> str:
        await asyncio.sleep(0)
        return "text"

    async def write(self, path: str, text: str) -> None:
        await asyncio.sleep(0)


@requirement("R-REQCAN-03")
@pytest.mark.parametrize("is_source", [True, False], ids=["source", "disk"])
async def test_read_that_is_cancelled_before_it_begins_leaves_no_coroutine(
    tmp_path: Path, is_source: bool
) -> None:
    async with agent_by_hand(1, files=SlowTexts() if is_source else "ro") as (agent, raw):
        await opened(agent, raw, str(tmp_path))
        read = {"sessionId": "s1", "path": str(tmp_path / "a")}
        raw.send(request(7, "fs/read_text_file", read), cancel(7))
        response = await raw.get()
        assert (response["id"], response["error"]["code"]) == (7, -32800)
        await asyncio.sleep(0)
        gc.collect(1)  # the interpreter warns of a coroutine that was never awaited: an error here


class Buffers:
    """Texts of an editor that has no file open."""

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def read(self, path: str) -> str | Awaitable[str]:
        if self.is_async:
            return self._read(path)
        raise FileNotFoundError(path)

    async def _read(self, path: str) -> str:
        raise FileNotFoundError(path)

    def write(self, path: str, text: str) -> None:
        raise AssertionError("nothing is written")


SOURCES = pytest.mark.parametrize(
    "files",
    ["ro", "rw", Buffers(is_async=False), Buffers(is_async=True)],
    ids=["ro", "rw", "buffers", "slow buffers"],
)
GEMINI = {"name": "gemini-cli", "version": "0.61.0"}


async def answer_to_read(
    info: dict[str, str], folder: Path, path: str, files: Files
) -> dict[str, Any]:
    """Return the response to a read by the agent that calls itself this."""
    told = {"agentInfo": info}
    async with agent_by_hand(1, initialize=told, files=files) as (agent, raw):
        session = await opened(agent, raw, str(folder))
        params = {"sessionId": session.id, "path": path, "line": 1, "limit": 9}
        raw.ask("r1", "fs/read_text_file", params)
        answer = await raw.get()
        assert answer["id"] == "r1"
        return answer


@SOURCES
@quirk("missing-file-fatal")
async def test_agent_that_gives_up_at_the_error_reads_a_missing_file_as_empty(
    tmp_path: Path, files: Files
) -> None:
    answer = await answer_to_read(GEMINI, tmp_path, str(tmp_path / "new" / "a.txt"), files)
    assert answer["result"] == {"content": ""}


@SOURCES
@requirement("R-FS-06")
@pytest.mark.parametrize("name", ["qwen-code", "OpenCode", "someone", "Gemini-CLI"])
async def test_missing_file_is_an_error_for_other_agents(
    tmp_path: Path, files: Files, name: str
) -> None:
    info = {"name": name, "version": "0.61.0"}
    answer = await answer_to_read(info, tmp_path, str(tmp_path / "a.txt"), files)
    assert answer["error"]["code"] == -32002


@requirement("R-DIR-12")
async def test_only_a_missing_file_is_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path.parent / "outside.txt"):
        answer = await answer_to_read(GEMINI, tmp_path, str(path), "rw")
        assert "error" in answer
