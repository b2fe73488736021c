"""Spans of OpenTelemetry: what a recording becomes, as JSON and at a collector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accord_trace import open_trace
from accord_trace.spans import Span, spans_of
from sample_recordings import Writer

SECRET = "my private text"


def talk(version: int = 1) -> Writer:
    """Return one turn with a tool call that asks for permission, and one that fails."""
    talk = Writer()
    info = {"name": "painter", "version": "2"}
    key = "agentInfo" if version == 1 else "info"
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": version})
    talk.to_client(0.1, id=0, result={"protocolVersion": version, key: info})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": "/x"})
    talk.to_client(0.5, id=1, result={"sessionId": "s"})
    prompt = {
        "sessionId": "s",
        "prompt": [{"type": "text", "text": SECRET}],
        "_meta": {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"},
    }
    talk.to_agent(1.0, id=2, method="session/prompt", params=prompt)
    chunk = {"content": {"type": "text", "text": f"I say {SECRET}"}}
    talk.update(1.5, sessionUpdate="agent_message_chunk", **chunk)
    begun = {"title": SECRET, "kind": "edit", "status": "pending", "rawInput": {"path": SECRET}}
    talk.update(2.0, sessionUpdate="tool_call", toolCallId="t", name="write_file", **begun)
    asked = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}
    talk.to_client(2.1, id=7, method="session/request_permission", params=asked)
    outcome = {"outcome": "selected", "optionId": "allow"}
    talk.to_agent(4.1, id=7, result={"outcome": outcome})
    talk.to_client(4.2, id=8, method="fs/read_text_file", params={"sessionId": "s", "path": SECRET})
    talk.to_agent(4.3, id=8, error={"code": -32002, "message": SECRET})
    talk.update(4.5, sessionUpdate="tool_call_update", toolCallId="t", status="failed")
    talk.update(4.6, sessionUpdate="tool_call", toolCallId="u", title="x", kind="read")
    talk.update(4.7, sessionUpdate="plan", entries=[])
    usage = {"inputTokens": 10, "outputTokens": 20, "cachedReadTokens": 5, "totalTokens": 30}
    if version == 1:
        talk.to_client(5.0, id=2, result={"stopReason": "end_turn", "usage": usage})
    else:
        talk.to_client(1.1, id=2, result={"messageId": "m"})
        idle = {"state": "idle", "stopReason": "end_turn", "usage": usage}
        talk.update(5.0, sessionUpdate="state_update", **idle)
    talk.to_agent(6.0, id=3, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.to_client(6.5, id=3, error={"code": -32603, "message": SECRET})
    talk.to_agent(7.0, id=4, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.to_agent(7.5, method="session/cancel", params={"sessionId": "s"})
    return talk


def spans(path: Path, *, content: bool = False) -> dict[str, Span]:
    """Return the spans by name and start, parents before children in time."""
    found = list(spans_of(open_trace(path), "name", content=content))
    return {f"{span.name} {span.start}": span for span in found}


@pytest.mark.parametrize("version", [1, 2])
def test_session_is_a_trace_turn_a_span_and_tool_call_a_span_in_it(
    tmp_path: Path, version: int
) -> None:
    found = spans(talk(version).save(tmp_path / "r.acp.jsonl"))
    assert len({span.trace_id for span in found.values()}) == 1
    by_id = {span.span_id: span for span in found.values()}
    tree = {
        key: (by_id[span.parent_id].name if span.parent_id else "", span.end)
        for key, span in found.items()
    }
    assert tree == {
        "session 0.2": ("", 7.5),
        "session/new 0.2": ("session", 0.5),
        "invoke_agent painter 1.0": ("session", 5.0),
        "execute_tool write_file 2.0": ("invoke_agent painter", 4.5),
        "session/request_permission 2.1": ("execute_tool write_file", 4.1),
        "fs/read_text_file 4.2": ("invoke_agent painter", 4.3),
        "execute_tool read 4.6": ("invoke_agent painter", 5.0),
        "invoke_agent painter 6.0": ("session", 6.5),
        "invoke_agent painter 7.0": ("session", 7.5),
    }
    turn = found["invoke_agent painter 1.0"]
    assert turn.attributes == {
        "gen_ai.conversation.id": "s",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "painter",
        "gen_ai.agent.version": "2",
        "gen_ai.provider.name": "painter",
        "acp.protocol.version": version,
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.response.finish_reasons": ["end_turn"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }
    assert [(event.name, event.ts) for event in turn.events] == [("plan", 4.7)]
    tool = found["execute_tool write_file 2.0"]
    assert tool.attributes["gen_ai.tool.call.id"] == "t"
    assert tool.attributes["gen_ai.tool.name"] == "write_file"
    assert tool.error == "failed"
    asked = found["session/request_permission 2.1"]
    assert asked.attributes["acp.permission.outcome"] == "selected"
    assert asked.attributes["acp.permission.option"] == "allow"
    assert found["fs/read_text_file 4.2"].error == "error -32002"
    assert found["invoke_agent painter 6.0"].error == "error -32603"
    assert found["execute_tool read 4.6"].attributes["acp.incomplete"] is True
    last = found["invoke_agent painter 7.0"]
    assert last.attributes["acp.incomplete"] is True
    assert [event.name for event in last.events] == ["session/cancel"]


def test_contents_are_in_spans_only_if_they_are_asked_for(tmp_path: Path) -> None:
    path = talk().save(tmp_path / "r.acp.jsonl")
    assert SECRET not in str(list(spans(path).values()))
    found = spans(path, content=True)
    turn = found["invoke_agent painter 1.0"].attributes
    assert json.loads(str(turn["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": SECRET}]}
    ]
    assert json.loads(str(turn["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"I say {SECRET}"}],
            "finish_reason": "end_turn",
        }
    ]
    tool = found["execute_tool write_file 2.0"].attributes
    assert json.loads(str(tool["gen_ai.tool.call.arguments"])) == {"path": SECRET}
    assert tool["acp.tool.title"] == SECRET
    assert found["fs/read_text_file 4.2"].attributes["acp.path"] == SECRET
    assert found["invoke_agent painter 6.0"].error == f"-32603 {SECRET}"


def test_ids_are_the_same_every_time_and_differ_between_recordings(tmp_path: Path) -> None:
    path = talk().save(tmp_path / "r.acp.jsonl")
    one = list(spans_of(open_trace(path), "a"))
    assert one == list(spans_of(open_trace(path), "a"))
    other = list(spans_of(open_trace(path), "b"))
    assert not {span.span_id for span in one} & {span.span_id for span in other}
    assert len({span.span_id for span in one}) == len(one)
