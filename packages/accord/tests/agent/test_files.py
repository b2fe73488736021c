"""Files: the client's if it offers them, otherwise local ones, and only below the roots."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from accord import Turn, v1
from accord.errors import InternalError, ResourceNotFound
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


async def _missing(turn: Turn) -> None:
    await turn.files.read("a.txt")


async def _in_a_group(turn: Turn) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(turn.files.read("a.txt"))


async def _folder(turn: Turn) -> None:
    await turn.files.read("folder")


async def _not_text(turn: Turn) -> None:
    await turn.files.read("binary")


async def _huge(turn: Turn) -> None:
    await turn.files.read("huge")


async def _below_a_file(turn: Turn) -> None:
    await turn.files.write("binary/new", "text")


async def _delete_missing(turn: Turn) -> None:
    await turn.delete("a.txt")


async def _delete_folder(turn: Turn) -> None:
    await turn.delete("folder")


async def _outside(turn: Turn) -> None:
    await turn.files.read("/home/somebody/.ssh/id_rsa")


async def _own_file(_: Turn) -> None:
    await asyncio.to_thread(Path("/home/somebody/agent.toml").read_bytes)


@BOTH
@requirement("R-ERR-02", "R-ERR-05")
@pytest.mark.parametrize(
    ("work", "message", "path"),
    [
        (_missing, "could not read the file {}: it does not exist", "a.txt"),
        (_folder, "could not read the file {}: it is a directory", "folder"),
        (_not_text, "could not read the file {}: it is not text", "binary"),
        (_huge, "could not read the file {}: it is too large", "huge"),
        (_below_a_file, "could not write the file {}: a part of its path is a file", "binary/new"),
        (_delete_missing, "could not delete the file {}: it does not exist", "a.txt"),
        (_delete_folder, "could not delete the file {}: it is a directory", "folder"),
        (_outside, "could not read a file: it is outside the session's directories", None),
        # What an agent reads by itself is not the client's business.
        (_own_file, "Internal error", None),
        (_in_a_group, "Internal error", None),
    ],
)
async def test_file_error_that_an_author_does_not_catch_reaches_the_client(
    tmp_path: Path, version: int, work: Any, message: str, path: str | None
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 30)
    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        if version == V1:
            with pytest.raises(InternalError) as caught:
                await client.prompt("go")
            error: Any = caught.value
        else:
            assert await client.prompt("go") == "error"
            error = client.ends()[-1].error
    assert error.code == -32603  # not that of an unknown session
    whole = None if path is None else str(tmp_path / path)
    assert error.message.removeprefix("The agent ") == message.format(whole)
    assert error.data in ({"path": whole}, *((None, UNSET) if path is None else ()))
    assert "somebody" not in str(error)


@pytest.mark.parametrize("make", [None, Editor], ids=["local", "client"])
async def test_missing_file_of_the_client_is_named_too(
    tmp_path: Path, make: Callable[[AgentHarness], Any] | None
) -> None:
    async with connect_client(
        FunctionAgent(_missing), V1, cwd=str(tmp_path), client=make
    ) as client:
        with pytest.raises(InternalError, match="it does not exist"):
            await client.prompt("go")


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
