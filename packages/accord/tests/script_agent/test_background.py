"""Background work, subagents, and output outside the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import Compaction, Notice, StateChanged, ToolCall
from script_agent.conversation import BOTH, connected, conversation, run_prompt


@BOTH
@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("background 0", "Work continues in the background."),
        ("background soon", "Expected seconds or `forever`, got `soon`."),
        ("alone 0", "The call was not cancelled."),
        ("pause", "I have paused."),
        ("notice loud", "Expected `info`, `warning` or `error`, got `loud`."),
        ("compact", "The context is shorter."),
        ("compact fail", "The context is unchanged."),
        ("compact now", "Expected `fail` or nothing, got `now`."),
        ("document", "One plan is left."),
        ("subagent", "The subagent is done."),
        ("tokens", "This took 30 tokens."),
        ("system", "No system prompt."),
        ("extension _test/hello", "The client responded with error -32601."),
        ("extension hello", "Expected a method that begins with an underscore."),
        ("extension _test/hello [1]", "Expected a JSON object."),
        ("extension _test/hello {", "Expected a JSON object."),
    ],
)
async def test_agent_says(version: int, prompt: str, text: str, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, prompt)
    assert done.text.split("\n\nUsage")[0] == text
    assert done.stop_reason == "end_turn"


@BOTH
async def test_background_work_outlives_its_turn(version: int, tmp_path: Path) -> None:
    async with conversation(version, tmp_path) as session:
        await run_prompt(session, "background 0.01")
        async with asyncio.timeout(20):
            while not session.transcript.tool_calls[-1].is_final:
                await asyncio.sleep(0)
        call = session.transcript.tool_calls[-1]
        assert (call.title, call.status) == ("Work in the background", "completed")


async def test_v2_background_work_is_listed_and_cancelled(tmp_path: Path) -> None:
    async with conversation(2, tmp_path) as session:
        done = await run_prompt(session, "background forever")
        call = session.transcript.tool_calls[-1]
        assert done.of(StateChanged)[-1].background == (call.id,)
        await session.cancel_tool_call(call.id)
        async with asyncio.timeout(20):
            while not session.transcript.tool_calls[-1].is_final:
                await asyncio.sleep(0)
        assert session.transcript.tool_calls[-1].status == "cancelled"


async def test_v2_notices_and_compactions_are_shown(tmp_path: Path) -> None:
    async with conversation(2, tmp_path) as session:
        done = await run_prompt(session, "notice warning")
        assert [notice.title for notice in done.of(Notice)] == ["A notice"]
        done = await run_prompt(session, "compact")
        assert done.of(Compaction)[-1].status == "completed"


@BOTH
async def test_pause_changes_the_status_if_the_version_has_one(
    version: int, tmp_path: Path
) -> None:
    async with conversation(version, tmp_path) as session:
        done = await run_prompt(session, "pause")
    statuses: list[Any] = [event.status for event in done.of(ToolCall)]
    assert ("paused" in statuses) is (version == 2)
    assert statuses[-1] == "completed"


@BOTH
async def test_echo_extension_returns_its_params(version: int) -> None:
    async with connected(version) as agent:
        answer = await agent.remote.call_extension("_accord/echo", {"a": 1})
    assert answer == {"params": {"a": 1}, "version": version}
