"""Subagents, and messages between sessions, as a client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from accord import (
    LocalProtocolError,
    PermissionDecided,
    SessionMessage,
    StateChanged,
    Subagent,
    Text,
)
from client.wire_agents import BOTH, agent_by_hand, opened, update
from requirement import requirement

CHILD = {
    "sessionUpdate": "subagent_update",
    "sessionId": "c1",
    "title": "Look around",
    "state": {"state": "running"},
    "capabilities": {"cancel": {}},
}


@requirement("R-SUBAG-04", "R-SUBAG-06")
@BOTH
async def test_subagent_is_announced_and_patched(version: int) -> None:
    async with agent_by_hand(version, unstable=True) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            events = aiter(updates)
            raw.tell(*update("s1", **CHILD))
            running = StateChanged(state="running")
            assert await anext(events) == Subagent(
                id="c1", title="Look around", state=running, cancellable=True
            )
            change = {"state": None, "capabilities": None, "additionalDirectories": ["/more"]}
            raw.tell(*update("s1", sessionUpdate="subagent_update", sessionId="c1", **change))
            changed = await anext(events)
        assert changed == Subagent(id="c1", title="Look around", additional_directories=("/more",))
        assert session.transcript.subagents == {"c1": changed}


@requirement("R-SUBAG-03", "R-SUBAG-05", "R-SUBAG-09")
@BOTH
async def test_subagent_can_be_followed_and_cancelled_but_not_prompted(version: int) -> None:
    async with agent_by_hand(version, unstable=True) as (agent, raw):
        session = await opened(agent, raw, "/work")
        with pytest.raises(LocalProtocolError):
            session.subagent("c1")
        async with session.events() as updates:
            raw.tell(*update("s1", **CHILD))
            await anext(aiter(updates))
        child = session.subagent("c1")
        assert child.cwd == "/work"
        assert not hasattr(child, "prompt")
        async with child.events() as updates:
            content = {"type": "text", "text": "I see."}
            raw.tell(
                *update("c1", sessionUpdate="agent_message_chunk", messageId="m", content=content)
            )
            assert await anext(aiter(updates)) == Text("I see.", "m")
        assert child.transcript.text == "I see."
        assert session.transcript.text == ""
        await child.cancel()
        sent = await raw.get()
        assert (sent["method"], sent["params"]["sessionId"]) == ("session/cancel", "c1")
        async with session.events() as updates:
            raw.tell(
                *update("s1", sessionUpdate="subagent_update", sessionId="c1", capabilities=None)
            )
            await anext(aiter(updates))
        with pytest.raises(LocalProtocolError):
            await child.cancel()


@BOTH
async def test_subagent_requests_permission_in_its_own_session(version: int) -> None:
    asked: list[Any] = []

    async def decide(request: Any) -> str:
        asked.append(request)
        return "allow"

    async with agent_by_hand(version, unstable=True, permissions=decide) as (agent, raw):
        session = await opened(agent, raw, "/work")
        async with session.events() as updates:
            raw.tell(*update("s1", **CHILD, cwd="/elsewhere"))
            await anext(aiter(updates))
        call = {"toolCallId": "t", "title": "Look"}
        params = {
            "sessionId": "c1",
            "title": "May I?",
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        }
        about = {"toolCall": call}
        if version == 2:
            about = {"subject": {"type": "tool_call", "toolCall": call}}
        child = session.subagent("c1")
        async with child.events() as updates:
            raw.ask("p", "session/request_permission", params | about)
            assert (await raw.get())["result"]["outcome"]["optionId"] == "y"
            events = [await anext(aiter(updates)) for _ in range(2)]
        assert isinstance(events[1], PermissionDecided)
        assert asked[0].cwd == "/elsewhere"


@requirement("R-SUBAG-11")
@BOTH
async def test_message_between_sessions_is_accumulated(version: int) -> None:
    async with agent_by_hand(version, unstable=True) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            events = aiter(updates)
            raw.tell(
                *update("s1", sessionUpdate="session_message", messageId="m", senderSessionId="c1")
            )
            for text in ("All ", "done"):
                content = {"type": "text", "text": text}
                raw.tell(
                    *update(
                        "s1", sessionUpdate="session_message_chunk", messageId="m", content=content
                    )
                )
            raw.tell(
                *update(
                    "s1", sessionUpdate="session_message", messageId="m", recipientSessionId="s1"
                )
            )
            last = [await anext(events) for _ in range(4)][-1]
        assert last == SessionMessage(id="m", sender="c1", recipient="s1", content=("All done",))
        assert session.transcript.items == [last]


@requirement("R-SUBAG-01")
@pytest.mark.parametrize("unstable", [False, True])
async def test_v1_subagents_and_plans_are_advertised_only_on_request(unstable: bool) -> None:
    async with agent_by_hand(1, unstable=unstable) as (_agent, raw):
        offered = raw.initialize["params"]["clientCapabilities"]
    assert ("subagents" in offered) is unstable
    assert ("plan" in offered) is unstable
