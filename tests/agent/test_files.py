"""Files: the client's if it offers them, otherwise local ones, and only below the roots."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord import Turn, v1
from accord.errors import ResourceNotFound
from accord.local.files import OutsideRoots
from agent.harness import BOTH, V1, AgentHarness, ClientV1, FunctionAgent, connect_client
from requirement import requirement


class Editor(ClientV1):
    """Has a file with unsaved text."""

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        try:
            text = self.harness.files[params.path]
        except KeyError:
            raise ResourceNotFound from None
        if params.line is not None:
            text = f"line {params.line}, {params.limit}"
        return v1.ReadTextFileResponse(content=text)

    def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        self.harness.files[params.path] = params.content
        return v1.WriteTextFileResponse()


@BOTH
@requirement("R-FS-01", "R-FS-08")
async def test_local_files_are_used_if_the_client_has_none(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")

    async def work(turn: Turn) -> None:
        await turn.say(await turn.files.read("a.txt", line=2))
        await turn.files.write(str(tmp_path / "new" / "b.txt"), "three")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "two\n"
        assert (tmp_path / "new" / "b.txt").read_text() == "three"
        assert not client.of("ToolCall", "ToolCallUpdate")


@requirement("R-FS-02", "R-FS-05")
async def test_v1_files_of_the_client_are_preferred(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved")

    async def work(turn: Turn) -> None:
        await turn.say(await turn.files.read("a.txt"))
        await turn.say(await turn.files.read("a.txt", line=3, limit=2))
        await turn.files.write("b.txt", "new")
        assert turn.client.reads_files
        assert turn.client.writes_files

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=Editor) as client:
        client.files[str(tmp_path / "a.txt")] = "unsaved, "
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "unsaved, line 3, 2"
        assert client.files[str(tmp_path / "b.txt")] == "new"
        assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize("make", [None, Editor], ids=["local", "client"])
async def test_missing_file_is_the_same_error_everywhere(
    tmp_path: Path, make: Callable[[AgentHarness], Any] | None
) -> None:
    async def work(turn: Turn) -> None:
        try:
            await turn.files.read("a.txt")
        except FileNotFoundError:
            await turn.say("missing")

    async with connect_client(FunctionAgent(work), V1, cwd=str(tmp_path), client=make) as client:
        await client.prompt("go")
        assert client.said() == "missing"


@pytest.mark.skipif(os.name == "nt", reason="Windows asks for a right to make links")
@pytest.mark.parametrize("make", [None, Editor], ids=["local", "client"])
@requirement("R-DIR-05", "R-DIR-10")
async def test_files_outside_of_the_roots_are_rejected(
    tmp_path: Path, make: Callable[[AgentHarness], Any] | None
) -> None:
    (tmp_path / "secret").write_text("secret")
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    refused: list[str] = []

    async def work(turn: Turn) -> None:
        for path in ("../secret", "link", str(tmp_path / "secret")):
            for use in (turn.files.read(path), turn.files.write(path, "x")):
                try:
                    await use
                except OutsideRoots:
                    refused.append(path)
        await turn.files.write(str(other / "a"), "x")

    async with connect_client(FunctionAgent(work), V1, opened=False, client=make) as client:
        await client.open(cwd=str(root), additional_directories=[str(other)])
        assert await client.prompt("go") == "end_turn"
        assert len(refused) == 6
        assert (tmp_path / "secret").read_text() == "secret"


@BOTH
async def test_written_file_is_a_diff_in_its_tool_call(version: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")

    async def work(turn: Turn) -> None:
        assert not turn.client.reads_files
        assert not turn.client.writes_files
        async with turn.tool("Edit", kind="edit"):
            await turn.files.write("a.txt", "new\n")
            await turn.files.write("b.txt", "new\n")
            await turn.files.write("c.txt", "new\n", show=False)

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        first, second = client.tool()["content"]
        if version == V1:
            assert (first.old_text, first.new_text) == ("old\n", "new\n")
            assert second.old_text is None
        else:
            assert "-old\n+new\n" in first.patch.text
            assert "new file mode" in second.patch.text
        assert client.statuses()[-2:] == ["in_progress", "completed"]
        assert (tmp_path / "c.txt").read_text() == "new\n"
