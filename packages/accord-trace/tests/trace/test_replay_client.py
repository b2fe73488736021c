"""Replays of recordings as client."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

import accord
from accord.version import ProtocolVersion
from accord_trace import Recording
from accord_trace.reading import open_trace
from accord_trace.replay import ReplayedAgent
from accord_trace.replay.client import ClientReplay
from accord_trace.replay.comparison import AgentMessage, Difference, compare
from accord_trace.replay.script import read_scripts
from requirement import requirement

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]

PROMPTS = ("echo Hello", "plan", "permission 2", "tools")


async def record_script(path: Path, version: ProtocolVersion = 1) -> None:
    """Record some turns, cancelled ones, and two sessions at the same time."""

    async def decide(_: accord.PermissionRequest) -> Literal["allow"] | None:
        if asked is None:
            return "allow"
        await asked.cancel()
        return None

    asked: accord.ClientTurn | None = None
    with Recording(path) as recording:
        async with accord.connect(
            SCRIPT,
            permissions=decide,
            versions=[version],
            observers=[recording.hop().observer("client")],
        ) as agent:
            session = await agent.new_session(path.parent)
            for prompt in PROMPTS:
                async with session.prompt(prompt) as turn:
                    await turn.wait()
            async with session.prompt("wait forever") as turn:
                async for event in turn:
                    if isinstance(event, accord.ToolCall):
                        await turn.cancel()
            async with session.prompt("permission") as asked:
                await asked.wait()
            await asyncio.gather(*(one_session(agent, path.parent) for _ in range(2)))


async def one_session(agent: accord.ConnectedAgent, cwd: Path) -> None:
    session = await agent.new_session(cwd)
    async with session.prompt("stream 20") as turn:
        await turn.wait()


async def replay_as_client(
    path: Path, agent: ReplayedAgent, *, strict: bool = False
) -> list[Difference]:
    script = read_scripts(open_trace(path))[0]
    replay = ClientReplay(script, agent(), cwd=str(path.parent), timeout_s=10)
    return await replay.run(strict=strict)


@requirement("R-TRACE-04")
@pytest.mark.parametrize("version", [1, 2])
async def test_agent_and_client_of_the_same_recording_have_no_differences(
    tmp_path: Path, version: ProtocolVersion
) -> None:
    path = tmp_path / "r.acp.jsonl"
    await record_script(path, version)
    agent = ReplayedAgent(path)
    assert await replay_as_client(path, agent, strict=True) == []
    agent.assert_matched(completely=True)


def update(kind: str, **fields: Any) -> AgentMessage:
    value = {"update": {"sessionUpdate": kind, **fields}}
    return AgentMessage(number=1, session="s", label=f"session/update {kind}", value=value)


def chunks(*texts: str) -> list[AgentMessage]:
    content = [{"type": "text", "text": text} for text in texts]
    return [update("agent_message_chunk", content=item) for item in content]


@requirement("R-TRACE-04")
def test_number_of_chunks_may_differ_and_strict_compares_their_text() -> None:
    assert list(compare(chunks("a", "b", "c"), chunks("ab", "c"), strict=True)) == []
    assert list(compare(chunks("a", "b"), chunks("x"), strict=False)) == []
    [found] = compare(chunks("a", "b"), chunks("ax"), strict=True)
    assert str(found).endswith('update.content.text: expected "ab", got "ax"')


@requirement("R-TRACE-04")
def test_shape_has_keys_types_and_final_states() -> None:
    old = update("tool_call_update", toolCallId="a", status="completed", title="x", n=1)
    new = update("tool_call_update", toolCallId="b", status="failed", title=2, m=1)
    assert [item.path for item in compare([old], [new], strict=False)] == [
        "update.status",
        "update.title",
        "update.n",
        "update.m",
    ]


def test_state_of_the_session_may_come_at_any_place() -> None:
    commands = update("available_commands_update", availableCommands=[])
    assert list(compare([commands, *chunks("a")], [*chunks("a"), commands], strict=True)) == []
    [found] = compare([commands], [], strict=False)
    assert found.kind == "missing"


def test_notices_may_come_at_any_place_in_their_order() -> None:
    first, second = (update("notice", title=title) for title in ("a", "b"))
    old = [first, *chunks("x"), second]
    assert list(compare(old, [*chunks("x"), first, second], strict=True)) == []
    assert list(compare(old, [first, second, *chunks("x")], strict=True)) == []
    swapped = compare(old, [second, *chunks("x"), first], strict=True)
    assert [item.path for item in swapped] == ["update.title", "update.title"]
    [found] = compare(old, [*chunks("x"), second], strict=False)
    assert (found.kind, found.method) == ("missing", "session/update notice")


def response(request: int, number: int, value: Any, *, is_error: bool = False) -> AgentMessage:
    label = f"{'error' if is_error else 'response'} to session/new"
    return AgentMessage(number=number, session=None, label=label, value=value, request=request)


@requirement("R-TRACE-04")
def test_error_in_place_of_a_response_is_shown() -> None:
    old = response(3, 4, {"sessionId": "s"})
    new = response(3, 2, {"code": -32602, "message": "Invalid params"}, is_error=True)
    [found] = compare([old], [new], strict=False)
    assert str(found) == (
        "~ response to session/new (message 4): error: expected nothing, "
        'got {"code":-32602,"message":"Invalid params"}'
    )
    [found] = compare([new], [old], strict=False)
    assert str(found).startswith("~ error to session/new (message 2): result: expected nothing")


@requirement("R-TRACE-04")
def test_differences_are_in_the_order_of_the_recording() -> None:
    opened = response(1, 2, {"modes": {}})
    refused = response(5, 6, {"modes": {}})
    labels = [("session/update plan", 3), ("session/update tool_call", 4)]
    old = [
        AgentMessage(number=number, session="s", label=label, value={}) for label, number in labels
    ]
    new = AgentMessage(number=3, session="s", label="terminal/create", value={"command": "x"})
    found = compare([refused, *old, opened], [new, response(1, 1, {})], strict=False)
    assert list(map(str, found)) == [
        "~ response to session/new (message 2): modes: expected {}, got nothing",
        "- session/update plan (message 3): did not come",
        "- session/update tool_call (message 4): did not come",
        '+ terminal/create: is not recorded: {"command":"x"}',
        "- response to session/new (message 6): did not come",
    ]
