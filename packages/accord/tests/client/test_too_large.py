"""Messages larger than a frame raise an error at the sender, on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import (
    Agent,
    ClientSession,
    FrameTooLarge,
    RequestError,
    ToolCall,
    Turn,
    connect,
    serve,
)
from accord.transports.memory import pair
from client.wire_agents import BOTH
from raw_peer import QUICK
from versions import only

FRAME_BYTES = 50_000
LARGE = "x" * FRAME_BYTES

Script = Callable[[Turn], Awaitable[None]]


class Scripted(Agent):
    """Runs a script in each turn and records its exception."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.raised: list[BaseException] = []

    async def prompt(self, turn: Turn) -> None:
        try:
            await self.script(turn)
        except Exception as exc:  # noqa: BLE001  # kept for the test
            self.raised.append(exc)
        await turn.say("done")


@asynccontextmanager
async def session_with(
    version: Any, agent: Agent, cwd: Path, **options: Any
) -> AsyncGenerator[ClientSession]:
    here, there = pair(frame_bytes=FRAME_BYTES)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(serve(agent, there, limits=QUICK))
        async with connect(here, limits=QUICK, versions=only(version), **options) as connected:
            yield await connected.new_session(cwd)


async def run(version: int, script: Script, cwd: Path, **options: Any) -> BaseException:
    """Return the exception of a script, and check that its session still works."""
    agent = Scripted(script)
    async with session_with(version, agent, cwd, **options) as session:
        async with session.prompt("Hi") as turn:
            assert await turn.wait() == "end_turn"
        assert turn.text == "done"
    (error,) = agent.raised
    return error


@BOTH
async def test_say_raises(version: int, tmp_path: Path) -> None:
    error = await run(version, lambda turn: turn.say(LARGE), tmp_path)
    assert isinstance(error, FrameTooLarge)
    assert (error.method, error.limit_bytes) == ("session/update", FRAME_BYTES)


async def test_writing_a_file_that_is_too_large_raises(tmp_path: Path) -> None:
    async def write(turn: Turn) -> None:
        await turn.files.write(str(tmp_path / "a"), LARGE)

    error = await run(1, write, tmp_path, files="rw")
    assert isinstance(error, FrameTooLarge)
    assert error.method == "fs/write_text_file"


async def test_reading_a_file_that_is_too_large_raises(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(LARGE)

    async def read(turn: Turn) -> None:
        await turn.files.read(str(tmp_path / "a"))

    error = await run(1, read, tmp_path, files="rw")
    assert isinstance(error, RequestError)
    assert error.message.startswith("The result of fs/read_text_file is too large: ")


@BOTH
async def test_prompt_raises_and_the_next_one_works(version: int, tmp_path: Path) -> None:
    async def nothing(turn: Turn) -> None:
        raise ValueError("kept")

    async def too_large(session: ClientSession) -> None:
        async with session.prompt(LARGE) as turn:
            await turn.wait()

    async with session_with(version, Scripted(nothing), tmp_path) as session:
        with pytest.raises(FrameTooLarge):
            await too_large(session)
        async with session.prompt("Hi") as turn:
            assert await turn.wait() == "end_turn"


async def test_tool_call_ends_even_if_its_streamed_content_is_too_large(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Version 1 sends the whole content of a tool call, but not for each chunk."""

    async def stream(turn: Turn) -> None:
        async with turn.tool("Build") as call:
            await call.append_text("begin ")
            for _ in range(8):  # each chunk fits, all together do not
                await call.append_text(LARGE[: FRAME_BYTES // 4])

    agent = Scripted(stream)
    async with session_with(1, agent, tmp_path) as session:
        async with session.prompt("Hi") as turn:
            assert await turn.wait() == "end_turn"
        (call,) = (item for item in session.transcript.items if isinstance(item, ToolCall))
        assert call.status == "completed"
    assert agent.raised == []
    assert [record for record in caplog.records if "was not sent" in record.getMessage()]
