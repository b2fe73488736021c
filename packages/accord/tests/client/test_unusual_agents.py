"""Requests and updates that the client does not know or support."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import (
    Compaction,
    Notice,
    PermissionRequest,
    Plan,
    StateChanged,
    ToolCall,
    Transcript,
    v2,
)
from accord.client.elicitation import ElicitationForm, FormField, form_error
from accord.client.permissions import allow
from accord.client.v2 import events_from_update as events_from_update_v2
from accord.wire.codec import decode
from client.wire_agents import BOTH, agent_by_hand, opened, update
from requirement import requirement

OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "m", "name": "Maybe", "kind": "_maybe"},
]
CANCELLED = {"outcome": {"outcome": "cancelled"}}


async def transcript_of(version: int, *updates: dict[str, Any]) -> Any:
    """Return the transcript of a session after these updates."""
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as events:
            for each in updates:
                raw.tell(*update("s1", **each))
            raw.tell(*update("s1", sessionUpdate="session_info_update", title="end"))
            async for _ in events:
                if session.transcript.title == "end":
                    return session.transcript
    raise AssertionError


# Requests.


@requirement("R-PERM-19")
async def test_v2_withdrawn_permission_request_is_answered_with_cancelled() -> None:
    asked = asyncio.Event()

    async def never(_request: PermissionRequest) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with agent_by_hand(2, permissions=never) as (agent, raw):
        await opened(agent, raw)
        params = {"sessionId": "s1", "title": "May I?", "options": OPTIONS}
        raw.ask("q", "session/request_permission", params)
        await asked.wait()
        raw.tell("$/cancel_request", {"requestId": "q"})
        answer = await raw.get()
        assert (answer["id"], answer["result"]) == ("q", CANCELLED)


@requirement("R-PERM-13", "R-PERM-15")
async def test_v2_permission_request_with_an_unknown_subject_is_not_allowed_by_rules() -> None:
    asked: list[PermissionRequest] = []

    def note(request: PermissionRequest) -> None:
        asked.append(request)

    async with agent_by_hand(2, permissions=[note, allow("read", "edit", "execute")]) as (
        agent,
        raw,
    ):
        await opened(agent, raw)
        params = {
            "sessionId": "s1",
            "title": "Pay?",
            "subject": {"type": "_payment", "amount": 3},
            "options": OPTIONS,
        }
        result = await raw.result_of("q", "session/request_permission", params)
    assert [(request.title, request.tool_call) for request in asked] == [("Pay?", None)]
    assert [option.kind for option in asked[0].options] == ["allow_once", "_maybe"]
    assert result == CANCELLED


@requirement("R-ELIC-03")
@pytest.mark.parametrize("mode", ["url", "_voice"])
@BOTH
async def test_unsupported_elicitation_is_rejected(version: int, mode: str) -> None:
    async def fill_in(_form: ElicitationForm) -> None:
        raise AssertionError

    async with agent_by_hand(version, on_elicit_form=fill_in) as (agent, raw):
        await opened(agent, raw)
        params = {"mode": mode, "message": "m", "sessionId": "s1"}
        more = {"elicitationId": "e", "url": "https://a.example"}
        error = await raw.error_of("q", "elicitation/create", params | more)
        assert error["code"] == -32602


@requirement("R-ELIC-19", "R-ELIC-20")
def test_patterns_and_unknown_formats_of_a_form_are_not_validated() -> None:
    field = FormField(name="a", kind="text", title="A", pattern="(x+x+)+y", format="_moon")
    assert form_error(ElicitationForm(message="", fields=(field,)), {"a": "x" * 10_000}) is None


@requirement("R-TOOL-16")
async def test_name_of_a_tool_alone_allows_nothing() -> None:
    call = ToolCall(id="c", kind="execute", name="read")
    request = PermissionRequest(session_id="s", cwd="/", title="", options=(), tool_call=call)
    assert allow("read")(request) is None


# Updates.


@requirement("R-TOOL-12")
async def test_v2_unknown_status_of_a_tool_call_is_not_final() -> None:
    transcript = await transcript_of(
        2,
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "_resting"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "paused"},
    )
    assert [(call.status, call.is_final) for call in transcript.tool_calls] == [
        ("_resting", False),
        ("paused", False),
    ]


@requirement("R-TOOL-23")
async def test_v2_diff_without_a_patch_is_shown() -> None:
    change = {"operation": "delete", "path": "/project/a"}
    transcript = await transcript_of(
        2,
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "content": [{"type": "diff", "changes": [change], "patch": None}],
        },
    )
    [diff] = transcript.tool_call("c").content
    assert diff.path == "/project/a"


@requirement("R-DTERM-02")
@pytest.mark.parametrize("anchor_first", [True, False])
async def test_v2_terminal_is_shown_whether_its_reference_or_its_output_comes_first(
    anchor_first: bool,
) -> None:
    anchor = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "content": [{"type": "terminal", "terminalId": "t"}],
    }
    output = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="}
    updates = (anchor, output) if anchor_first else (output, anchor)
    transcript = await transcript_of(2, *updates)
    assert transcript.terminals["t"].text == "hi"
    assert len(transcript.tool_call("c").content) == 1


@requirement("R-NOTICE-05")
@BOTH
async def test_notices_do_not_change_the_state(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        before = session.transcript.state
        async with session.events() as updates:
            events = aiter(updates)
            for severity in ("error", "_loud") if version == 2 else ("error",):
                raw.tell(*update("s1", sessionUpdate="notice", severity=severity, title="Oh"))
                assert await anext(events) == Notice(severity, "Oh")
        assert session.transcript.state == before


def compaction(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "compaction_update", "compactionId": "k"} | fields


def summary(text: str) -> dict[str, Any]:
    return {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": "k",
        "content": {"type": "text", "text": text},
    }


@requirement("R-COMP-05", "R-COMP-08")
@BOTH
async def test_compaction_is_extended_by_chunks_and_patched(version: int) -> None:
    transcript = await transcript_of(version, summary("a"), summary("b"))
    growing = transcript.compaction("k")
    assert (growing.status, "".join(growing.summary)) == ("in_progress", "ab")
    whole = [{"type": "text", "text": "c"}]
    transcript = await transcript_of(
        version, summary("a"), compaction(status="failed", summary=whole, error="why")
    )
    assert transcript.compaction("k") == Compaction(
        id="k", status="failed", summary=("c",), error="why"
    )
    transcript = await transcript_of(
        version,
        compaction(status="in_progress", summary=whole, error="why"),
        compaction(status="completed", summary=None, error=None),
    )
    assert transcript.compaction("k") == Compaction(id="k", status="completed")
    transcript = await transcript_of(
        version,
        compaction(status="in_progress", summary=whole, error="why"),
        compaction(status="completed", summary=[]),
    )
    assert transcript.compaction("k") == Compaction(id="k", status="completed", error="why")


@requirement("R-COMP-07")
async def test_v2_compaction_with_an_unknown_status_is_shown() -> None:
    transcript = await transcript_of(2, compaction(status="_dreaming"))
    assert transcript.compaction("k").status == "_dreaming"


@requirement("R-PROMPT-37")
async def test_unknown_v2_state_replaces_the_last_one() -> None:
    transcript = await transcript_of(
        2,
        {"sessionUpdate": "state_update", "state": "running"},
        {"sessionUpdate": "state_update", "state": "unknown"},
    )
    assert transcript.state == StateChanged(state="unknown")


@requirement("R-PLAN-12", "R-PLAN-10")
async def test_v2_plans_of_every_type_and_with_unknown_values_are_shown() -> None:
    entry = {"content": "a", "priority": "_soon", "status": "_resting"}
    plans = [
        {"type": "items", "planId": "p", "entries": [entry]},
        {"type": "markdown", "planId": "q", "content": "# Plan"},
        {"type": "file", "planId": "r", "uri": "file:///plan.md"},
        {"type": "markdown", "planId": "s", "content": "gone"},
    ]
    updates: list[dict[str, Any]] = [{"sessionUpdate": "plan_update", "plan": p} for p in plans]
    transcript = await transcript_of(2, *updates, {"sessionUpdate": "plan_removed", "planId": "s"})
    [shown] = transcript.plans["p"].entries
    assert (shown.priority, shown.status) == ("_soon", "_resting")
    assert transcript.plans["q"].markdown == "# Plan"
    assert transcript.plans["r"].uri == "file:///plan.md"
    assert transcript.plans.get("s", Plan(removed=True)).removed


@requirement("R-MSG-04")
@BOTH
async def test_message_ids_are_strings_only(version: int) -> None:
    def said(message_id: str, text: str) -> dict[str, Any]:
        content = {"type": "text", "text": text}
        kind = "agent_message_chunk"
        return {"sessionUpdate": kind, "messageId": message_id, "content": content}

    transcript = await transcript_of(version, said("1", "a"), said("01", "b"), said("1 ", "c"))
    assert [message.text for message in transcript.messages] == ["a", "b", "c"]


@requirement("R-CONF-05", "R-CONF-12", "R-CONF-14")
@BOTH
async def test_options_are_kept_in_order_without_unknown_ones(version: int) -> None:
    key = "id" if version == 1 else "configId"

    def option(name: str, **more: Any) -> dict[str, Any]:
        choices = [{"value": "v", "name": "V"}]
        select = {"type": "select", "currentValue": "v", "options": choices}
        return {key: name, "name": name, **select, **more}

    shown = [
        option("z", category="_own"),
        {key: "s", "name": "s", "type": "slider", "currentValue": 3},
        option("a", category="later"),
        option("m"),
    ]
    transcript = await transcript_of(
        version, {"sessionUpdate": "config_option_update", "configOptions": shown}
    )
    assert [option.id for option in transcript.options] == ["z", "a", "m"]


def test_idle_state_with_unknown_keys_is_idle() -> None:
    text = (
        b'{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle",'
        b'"stopReason":"refusal","of_tomorrow":1}}'
    )
    note = decode(text, v2.UpdateSessionNotification)
    event = events_from_update_v2(note.update, Transcript())
    assert event == StateChanged(state="idle", stop_reason="refusal")


@BOTH
@requirement("R-INIT-14")
async def test_protocol_version_can_be_written_with_a_point(version: int) -> None:
    """In JSON Schema 1.0 is an integer."""
    async with agent_by_hand(version, initialize={"protocolVersion": float(version)}) as (agent, _):
        assert agent.version == version
        assert agent.remote.initialized.protocol_version == version
