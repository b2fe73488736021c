"""Tool calls that the agent has left open at the end of their turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import ClientSession, ConnectionLost, StateChanged, ToolCall, Transcript
from client.wire_agents import BOTH, agent_by_hand, update
from client.wire_agents import opened as open_session
from raw_peer import RawPeer
from requirement import requirement

WORDS = "not finished by the agent"


def begins(version: int, call_id: str, status: str = "in_progress", **more: Any) -> Any:
    kind = "tool_call" if version == 1 else "tool_call_update"
    title = f"Call {call_id}"
    return update("s1", sessionUpdate=kind, toolCallId=call_id, title=title, status=status, **more)


def changes(call_id: str, **more: Any) -> Any:
    return update("s1", sessionUpdate="tool_call_update", toolCallId=call_id, **more)


def idle(**more: Any) -> Any:
    return update("s1", sessionUpdate="state_update", state="idle", stopReason="end_turn", **more)


async def take_turn(
    session: ClientSession, raw: RawPeer, version: int, *updates: Any, **state: Any
) -> list[Any]:
    """Run a turn with these updates; return its events."""
    async with session.prompt("Hi") as turn:
        request = await raw.get()
        if version == 2:
            raw.answer(request["id"], {"messageId": f"u{request['id']}"})
            raw.tell(*update("s1", sessionUpdate="state_update", state="running", **state))
        for each in updates:
            raw.tell(*each)
        if version == 1:
            raw.answer(request["id"], {"stopReason": "end_turn"})
        else:
            raw.tell(*idle(**state))
        return [event async for event in turn]


def statuses(session: ClientSession) -> dict[str, str]:
    return {call.id: call.shown_status for call in session.transcript.tool_calls}


@pytest.mark.parametrize("status", ["pending", "in_progress"])
async def test_v1_call_that_is_open_at_the_end_of_its_turn_is_not_finished(status: str) -> None:
    async with agent_by_hand(1) as (agent, raw):
        session = await open_session(agent, raw)
        calls = begins(1, "a", "completed"), begins(1, "b", status)
        events = await take_turn(session, raw, 1, *calls)
        assert session.transcript.open_tool_calls == []
        assert statuses(session) == {"a": "completed", "b": WORDS}
        left, state = events[-2:]
        assert isinstance(left, ToolCall)
        assert (left.id, left.status, left.unfinished) == ("b", status, True)
        assert (left.changed, left.is_final, left.is_open) == (("unfinished",), False, False)
        assert isinstance(state, StateChanged)
        assert Transcript.from_events(session.transcript.events()) == session.transcript


@requirement("R-CANCEL-02")
@BOTH
async def test_cancel_marks_only_the_calls_of_the_current_turn(version: int) -> None:
    """The agent leaves an edit pending that was allowed and done; a later turn is cancelled."""
    async with agent_by_hand(version) as (agent, raw):
        session = await open_session(agent, raw)
        await take_turn(session, raw, version, begins(version, "edit", "pending"))
        async with session.prompt("Again") as turn:
            request = await raw.get()
            raw.tell(*begins(version, "now"))
            if version == 2:
                raw.answer(request["id"], {"messageId": "u2"})
            async for event in turn:
                if isinstance(event, ToolCall) and event.id == "now":
                    break
            await turn.cancel()
            expected = {1: WORDS, 2: "pending"}[version]  # of v2 it can be background work
            assert statuses(session) == {"edit": expected, "now": "cancelled"}
            if version == 1:
                raw.answer(request["id"], {"stopReason": "cancelled"})
            else:
                raw.tell(*idle())
        assert statuses(session) == {"edit": expected, "now": "cancelled"}


async def test_v1_update_of_an_earlier_turns_call_counts_again_and_cancel_leaves_it() -> None:
    async with agent_by_hand(1) as (agent, raw):
        session = await open_session(agent, raw)
        await take_turn(session, raw, 1, begins(1, "late"), begins(1, "done"), begins(1, "same"))
        async with session.events() as updates:
            raw.tell(*changes("done", status="completed"))
            raw.tell(*changes("late", title="Still at it"))
            raw.tell(*changes("same", status="in_progress"))  # the same again is a report, too
            seen = [await anext(updates) for _ in range(3)]
        assert [event.changed for event in seen if isinstance(event, ToolCall)] == [
            ("status", "unfinished"),
            ("title", "unfinished"),
            ("unfinished",),
        ]
        assert statuses(session) == {
            "late": "in_progress",
            "done": "completed",
            "same": "in_progress",
        }
        assert [call.id for call in session.transcript.open_tool_calls] == ["late", "same"]
        async with session.prompt("Again") as turn:
            request = await raw.get()
            await turn.cancel()
            assert statuses(session)["late"] == "in_progress"
            raw.answer(request["id"], {"stopReason": "cancelled"})
        assert statuses(session) == {"late": WORDS, "done": "completed", "same": WORDS}
        assert session.transcript.open_tool_calls == []


@requirement("R-BGW-01", "R-BGW-04", "R-BGW-06")
@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({}, "in_progress"),  # not reported
        ({"background": [{"type": "tool_call", "toolCallId": "a"}]}, "in_progress"),
        ({"background": [{"type": "terminal", "terminalId": "t"}]}, "in_progress"),
        ({"background": [{"type": "_other"}]}, "in_progress"),
        ({"background": []}, WORDS),
    ],
)
async def test_v2_call_is_left_open_only_without_background_work(state: Any, shown: str) -> None:
    async with agent_by_hand(2) as (agent, raw):
        session = await open_session(agent, raw)
        content = [{"type": "terminal", "terminalId": "t"}]
        await take_turn(session, raw, 2, begins(2, "a", content=content), **state)
        assert statuses(session) == {"a": shown}
        async with session.events() as updates:
            raw.tell(*changes("a", rawOutput="more"))
            await anext(updates)
        assert statuses(session) == {"a": "in_progress"}


@requirement("R-CANCEL-02", "R-BGW-04", "R-BGW-08")
async def test_v2_cancel_leaves_a_call_whose_terminal_is_background_work() -> None:
    async with agent_by_hand(2) as (agent, raw):
        session = await open_session(agent, raw)
        async with session.prompt("Hi") as turn:
            request = await raw.get()
            raw.answer(request["id"], {"messageId": "u1"})
            content = [{"type": "terminal", "terminalId": "t"}]
            raw.tell(*begins(2, "serve", content=content))
            raw.tell(*begins(2, "now"))
            work = [{"type": "terminal", "terminalId": "t"}]
            state = {"sessionUpdate": "state_update", "state": "running"}
            raw.tell(*update("s1", **state, background=work))
            async for event in turn:
                if isinstance(event, StateChanged):
                    break
            await turn.cancel()
            assert statuses(session) == {"serve": "in_progress", "now": "cancelled"}
            raw.tell(*idle(background=work))


async def test_v1_calls_are_not_finished_if_the_agent_dies() -> None:
    async with agent_by_hand(1) as (agent, raw):
        session = await open_session(agent, raw)
        with pytest.raises(ConnectionLost):  # noqa: PT012  # a turn raises where it is left
            async with session.prompt("Hi") as turn:
                await raw.get()
                raw.tell(*begins(1, "a"))
                await anext(aiter(turn))  # the prompt
                while not session.transcript.tool_calls:
                    await asyncio.sleep(0)
                await raw.transport.aclose()
                await turn.wait()
        assert statuses(session) == {"a": WORDS}


def test_transcript_says_that_a_call_is_not_finished() -> None:
    call = ToolCall(id="a", title="Edit", status="in_progress", unfinished=True)
    for text in (Transcript.from_events([call])._repr_markdown_(), str(call)):
        assert text.count(WORDS) == 1
