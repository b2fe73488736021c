"""What clients see of an agent that speaks the other version of the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.client.events import ToolCall
from sessions_named.machine import Machine

pytestmark = pytest.mark.slow

META_AGENT = Path(__file__).parent / "meta_agent.py"


def attached(version: Any) -> Any:
    command = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    return accord.connect(command, versions=(version,))


@pytest.mark.parametrize(("of_agent", "of_client"), [(1, 2), (2, 1)])
async def test_meta_of_updates_is_passed_on(
    machine: Machine, of_agent: int, of_client: int
) -> None:
    command = f"{sys.executable} {META_AGENT} {of_agent}"
    machine.ok("session", "new", "-s", "fix", "--agent", command)
    async with attached(of_client) as agent:
        session = await agent.load_session(machine.record().id, machine.work)
        async with session.prompt("go") as turn:
            metas = {type(event).__name__: getattr(event, "meta", None) async for event in turn}
    assert metas["Text"] == {"example.org/of": "a message"}
    assert metas["ToolCall"] == {"example.org/of": "a tool call"}


async def test_client_of_version_1_sees_a_subagent_as_a_tool_call(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", "2")
    async with attached(1) as agent:
        session = await agent.load_session(machine.record().id, machine.work)
        async with session.prompt("subagent Hello.") as turn:
            assert await turn.wait() == "end_turn"
        (call,) = [item for item in session.transcript.items if isinstance(item, ToolCall)]
    assert (call.title, call.kind, call.status) == ("A subagent", "think", "completed")
    text = "".join(str(part) for part in call.content)
    assert text == "It says what it is told\n\nA call of the subagent\nHello."


async def test_subagent_that_was_cancelled_is_a_failed_tool_call(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", "2")
    async with attached(1) as agent:
        session = await agent.load_session(machine.record().id, machine.work)
        async with session.prompt("subagent forever") as turn:
            async for event in turn:
                if isinstance(event, ToolCall) and event.status == "in_progress":
                    await turn.cancel()
        (call,) = [item for item in session.transcript.items if isinstance(item, ToolCall)]
    assert call.status == "failed"
