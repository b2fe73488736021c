"""What the script agent does beside turns, and what is no part of the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import Compaction, Notice, StateChanged, ToolCall
from scripted.conversation import BOTH, connected, conversation, tell


@BOTH
@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("background 0", "It goes on in the background."),
        ("background soon", "Expected seconds or `forever`, got `soon`."),
        ("alone 0", "Nobody cancelled the call."),
        ("pause", "I have paused."),
        ("notice loud", "Expected `info`, `warning` or `error`, got `loud`."),
        ("compact", "The context is shorter."),
        ("compact fail", "The context is what it was."),
        ("compact now", "Expected `fail` or nothing, got `now`."),
        ("document", "One plan is left."),
        ("subagent", "The subagent is done."),
        ("tokens", "This took 30 tokens."),
        ("system", "There is none."),
        ("extension _test/hello", "The client says -32601."),
        ("extension hello", "Expected a method, which begins with an underscore."),
        ("extension _test/hello [1]", "Expected an object of JSON."),
        ("extension _test/hello {", "Expected an object of JSON."),
    ],
)
async def test_agent_says(version: int, prompt: str, text: str, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await tell(session, prompt)
    assert done.text.split("\n\nUsage")[0] == text
    assert done.stop_reason == "end_turn"


@BOTH
async def test_work_in_the_background_ends_behind_its_turn(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        await tell(session, "background 0.01")
        async with asyncio.timeout(20):
            while not session.transcript.tool_calls[-1].is_final:
                await asyncio.sleep(0)
        call = session.transcript.tool_calls[-1]
        assert (call.title, call.status) == ("Work in the background", "completed")


async def test_v2_work_in_the_background_is_listed_and_cancelled(tmp_path: Path) -> None:
    async with conversation(2, tmp_path) as session:
        done = await tell(session, "background forever")
        call = session.transcript.tool_calls[-1]
        assert done.of(StateChanged)[-1].background == (call.id,)
        await session.cancel_tool_call(call.id)
        async with asyncio.timeout(20):
            while not session.transcript.tool_calls[-1].is_final:
                await asyncio.sleep(0)
        assert session.transcript.tool_calls[-1].status == "cancelled"


async def test_v2_notices_and_compactions_are_shown(tmp_path: Path) -> None:
    async with conversation(2, tmp_path) as session:
        done = await tell(session, "notice warning")
        assert [notice.title for notice in done.of(Notice)] == ["A notice"]
        done = await tell(session, "compact")
        assert done.of(Compaction)[-1].status == "completed"


@BOTH
async def test_pausing_shows_in_the_status_where_there_is_one(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await tell(session, "pause")
    statuses: list[Any] = [event.status for event in done.of(ToolCall)]
    assert ("paused" in statuses) is (version == 2)
    assert statuses[-1] == "completed"


@BOTH
async def test_extension_of_the_agent_echoes(version: int) -> None:
    async with connected(version) as agent:
        answer = await agent.remote.call_extension("_accord/echo", {"a": 1})
    assert answer == {"params": {"a": 1}, "version": version}
