"""The state that Accord's client reports to a state probe."""

from __future__ import annotations

from typing import Any

import pytest

from accord.text.lenient_json import dumps, loads
from accord_conformance.client.probe_reply import session_state
from client.wire_agents import BOTH, agent_by_hand, opened, update


def parts(version: int) -> list[dict[str, Any]]:
    """Return updates of nearly all kinds."""
    text = {"type": "text", "text": "Said"}
    call = "tool_call" if version == 1 else "tool_call_update"
    diff: dict[str, Any] = {"type": "diff", "path": "/a", "oldText": "a", "newText": "b"}
    if version == 2:
        diff = {"type": "diff", "changes": [{"operation": "modify", "path": "/a"}]}
    broken = {"type": "image", "data": "no base64", "mimeType": "image/png"}
    content = [{"type": "content", "content": one} for one in (text, broken)] + [diff]
    child = {"sessionId": "child", "title": "A child", "state": {"state": "running"}}
    return [
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": text},
        {"sessionUpdate": call, "toolCallId": "t", "title": "Tool", "content": content},
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
        {"sessionUpdate": "subagent_update", **child},
        {"sessionUpdate": "session_message", "messageId": "b", "senderSessionId": "child"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        {"sessionUpdate": "session_info_update", "title": "The last of them"},
    ]


@BOTH
async def test_state_has_the_members_of_the_protocol(version: int) -> None:
    async with agent_by_hand(version, unstable=True) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            for one in parts(version):
                raw.tell(*update("s1", **one))
            async for _ in updates:
                if session.transcript.title == "The last of them":
                    break
        shown = session_state(session)
    assert loads(dumps(shown)) == shown
    content = [{"type": "text", "text": "Said"}]
    assert shown["messages"] == [{"messageId": "m", "role": "agent", "content": content}]
    (call,) = shown["toolCalls"]
    assert (call["toolCallId"], call["title"], call["status"]) == ("t", "Tool", "pending")
    assert [part["type"] for part in call["content"]] == ["content", "content", "diff"]
    assert call["content"][1]["content"]["data"] == "no base64"
    (child,) = shown["subagents"]
    assert (child["sessionId"], child["state"], child["cwd"]) == ("child", "running", session.cwd)
    assert shown["sessionMessages"][0]["senderSessionId"] == "child"
    assert shown["compactions"][0]["status"] == "in_progress"
    assert shown["usage"] == {"used": 1, "size": 2, "cost": None}
    assert "state" not in shown


@pytest.mark.parametrize(("given", "ids"), [({}, None), ({"background": []}, [])])
async def test_state_has_the_background_work(given: Any, ids: Any) -> None:
    async with agent_by_hand(2) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            raw.tell(*update("s1", sessionUpdate="state_update", state="running", **given))
            await anext(aiter(updates))
        shown = session_state(session)
    assert (shown["state"], shown["background"]) == ("running", ids)
