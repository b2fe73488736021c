"""How clients of version 1 see subagents of an agent of version 2: as tool calls."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

import accord
from accord.agent.updates import ToolContentUpdate
from accord.client.events import ToolCall
from accord_terminal.sessions.owner.translate import SessionTranslator
from sessions_named.machine import Machine

pytestmark = pytest.mark.slow

TOLD_AGENT = Path(__file__).parent / "told_agent.py"


def works(child: str = "child", parent: str = "one", **fields: Any) -> tuple[str, Any]:
    return parent, {
        "sessionUpdate": "subagent_update",
        "sessionId": child,
        "state": {"state": "running"},
        **fields,
    }


def rests(child: str = "child", parent: str = "one", reason: str = "end_turn") -> tuple[str, Any]:
    return works(child, parent, state={"state": "idle", "stopReason": reason})


def says(text: str, session_id: str = "child") -> tuple[str, Any]:
    return session_id, {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m1",
        "content": {"type": "text", "text": text},
    }


@asynccontextmanager
async def attached() -> AsyncIterator[Any]:
    command = [sys.executable, "-m", "accord", "session", "attach", "fix"]
    async with accord.connect(command, versions=(1,)) as agent:
        yield agent


async def tell(session: Any, *updates: tuple[str, Any]) -> None:
    """Let the agent send the updates."""
    async with session.prompt(json.dumps(updates)) as turn:
        assert await turn.wait() == "end_turn"


def shown(session: Any) -> list[tuple[str, str, str]]:
    """Return the title, the status and the text of each tool call."""
    calls = [item for item in session.transcript.items if isinstance(item, ToolCall)]
    return [(call.title, call.status, "".join(map(str, call.content))) for call in calls]


async def after(machine: Machine, *updates: tuple[str, Any]) -> list[tuple[str, str, str]]:
    """Return the tool calls that a client sees of the updates, sent to it as they come."""
    start(machine)
    async with attached() as agent:
        session = await agent.load_session(machine.record().id, machine.work)
        await tell(session, *updates)
        return shown(session)


def start(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", f"{sys.executable} {TOLD_AGENT}")


async def test_subagent_that_works_again_is_another_tool_call(machine: Machine) -> None:
    assert await after(
        machine,
        works(title="Look", description="At it"),
        says("first"),
        rests(),
        works(),
        says("second"),
        rests(),
    ) == [("Look", "completed", "At it\nfirst"), ("Look", "completed", "At it\nsecond")]


@pytest.mark.parametrize(("reason", "status"), [("end_turn", "completed"), ("cancelled", "failed")])
async def test_text_after_a_subagent_is_idle_is_shown(
    machine: Machine, reason: str, status: str
) -> None:
    rested = rests(reason=reason)
    assert await after(
        machine, works(title="Look"), says("first"), rested, says("la"), says("te")
    ) == [("Look", status, "first"), ("Look", status, "late")]


async def test_late_text_and_the_next_work_of_a_subagent_are_one_tool_call(
    machine: Machine,
) -> None:
    assert await after(
        machine, works(title="Look"), rests(), says("early, "), works(), says("on time"), rests()
    ) == [("Look", "completed", ""), ("Look", "completed", "early, on time")]


async def test_subagent_inside_another_is_shown_when_its_parent_is_idle(machine: Machine) -> None:
    assert await after(
        machine,
        works(title="Outer"),
        works("inner", "child", title="Inner"),
        says("both, ", "inner"),
        rests(),
        says("alone", "inner"),
        rests("inner", "child"),
    ) == [("Outer", "completed", "\nInner\nboth, "), ("Inner", "completed", "alone")]


async def test_client_that_resumes_sees_all_of_a_subagent_that_works(machine: Machine) -> None:
    start(machine)
    async with attached() as agent:
        session = await agent.load_session(machine.record().id, machine.work)
        earlier = (works("old", title="Old"), says("before", "old"), rests("old"))
        await tell(session, *earlier, works(title="Look"), says("first, "))
    async with attached() as agent:
        session = await agent.load_session(machine.record().id, machine.work, replay=False)
        await tell(session, says("second, "), says("third"))
        assert shown(session) == [("Look", "in_progress", "first, second, third")]
        await tell(session, rests())
        assert shown(session) == [("Look", "completed", "first, second, third")]


async def test_long_text_of_a_subagent_is_omitted(machine: Machine) -> None:
    updates = [update for _ in range(150) for update in (says("x" * 1000), says("main", "one"))]
    ((title, status, text),) = await after(machine, works(title="Look"), *updates, rests())
    assert (title, status) == ("Look", "completed")
    said, remark = text.split("\n", 1)
    assert said == "x" * 100_000
    assert remark.startswith("(This is too long: the rest is only in")


def test_content_other_than_text_counts_too() -> None:
    translator = SessionTranslator(2)
    note = {"type": "text", "text": "a note", "annotations": {"priority": 1}}
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 100_000}
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m1"}
    updates = [works(title="Look")]
    updates += [("child", {**chunk, "content": content}) for content in (note, image, note)]
    contents = [
        update.content
        for session_id, value in updates
        for update, _ in translator.updates(
            None if session_id == "one" else session_id, Raw(json.dumps(value).encode())
        )
        if isinstance(update, ToolContentUpdate)
    ]
    assert contents[0] == "a note"
    (omitted,) = contents[1:]
    assert "is too long" in str(omitted)
