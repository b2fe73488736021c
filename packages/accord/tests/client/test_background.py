"""Background work, and the cancellation of single tool calls and terminals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import LocalProtocolError, StateChanged, Text, ToolCall
from client.wire_agents import BOTH, agent_by_hand, opened, update
from requirement import requirement


def state(name: str, **more: Any) -> tuple[str, Any]:
    return update("s1", sessionUpdate="state_update", state=name, **more)


def text(words: str, message_id: str) -> tuple[str, Any]:
    content = {"type": "text", "text": words}
    return update("s1", sessionUpdate="agent_message_chunk", messageId=message_id, content=content)


@requirement("R-PROMPT-18")
@BOTH
async def test_events_after_a_turn_are_delivered_outside_turns(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        async with session.prompt("Begin") as turn:
            request = await raw.get()
            if version == 1:
                raw.tell(*text("Begun.", "m1"))
                raw.answer(request["id"], {"stopReason": "end_turn"})
            else:
                raw.answer(request["id"], {"messageId": "u1"})
                raw.tell(*state("running"))
                raw.tell(*text("Begun.", "m1"))
                raw.tell(*state("idle", stopReason="end_turn"))
            assert await turn.wait() == "end_turn"
        async with session.events() as updates:
            raw.tell(*text("The build is done.", "m2"))
            assert await anext(aiter(updates)) == Text("The build is done.", "m2")
        async with session.prompt("And now?") as second:
            request = await raw.get()
            if version == 1:
                raw.tell(*text("Nothing.", "m3"))
                raw.answer(request["id"], {"stopReason": "refusal"})
            else:
                raw.answer(request["id"], {"messageId": "u2"})
                raw.tell(*state("running"))
                raw.tell(*text("Nothing.", "m3"))
                raw.tell(*state("idle", stopReason="refusal"))
            events = [event async for event in second if isinstance(event, Text)]
        assert events == [Text("Nothing.", "m3")]
        assert second.text == "Nothing."
        assert session.transcript.text == "Begun.\n\nThe build is done.\n\nNothing."


@requirement("R-BGW-06", "R-PROMPT-34")
async def test_unknown_state_replaces_the_previous_one() -> None:
    work = [{"type": "terminal", "terminalId": "t1"}]
    async with agent_by_hand(2) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            raw.tell(*state("running", background=work))
            await anext(aiter(updates))
            raw.tell(*state("_dreaming", background=work))
            assert await anext(aiter(updates)) == StateChanged(state="_dreaming")
        assert session.transcript.state == StateChanged(state="_dreaming")


@requirement("R-BGW-06", "R-PROMPT-29")
async def test_end_of_background_work_does_not_end_the_turn() -> None:
    work = [{"type": "terminal", "terminalId": "t1"}]
    async with agent_by_hand(2) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            raw.tell(*state("idle", stopReason="end_turn", background=work))
            await anext(aiter(updates))
        async with session.prompt("Hi") as turn:
            request = await raw.get()
            raw.answer(request["id"], {"messageId": "u1"})
            raw.tell(*state("idle", stopReason="end_turn", background=[]))
            raw.tell(*state("running", background=[]))
            raw.tell(*state("idle", stopReason="refusal", background=[]))
            states = [event async for event in turn if isinstance(event, StateChanged)]
        assert [state.stop_reason for state in states] == ["end_turn", None, "refusal"]
        assert turn.stop_reason == "refusal"


@requirement("R-TCAN-01", "R-TCAN-02")
async def test_one_tool_call_and_one_terminal_are_cancelled_in_v2() -> None:
    async with agent_by_hand(2) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            for kind, key in (
                ("tool_call_update", "toolCallId"),
                ("terminal_update", "terminalId"),
            ):
                raw.tell(
                    *update("s1", sessionUpdate=kind, capabilities={"cancel": {}}, **{key: "x"})
                )
            events = aiter(updates)
            call = await anext(events)
            assert isinstance(call, ToolCall)
            assert call.cancellable
            await anext(events)
            for cancelling, method in (
                (session.cancel_tool_call("x"), "tool_call/cancel"),
                (session.cancel_terminal("x"), "terminal/cancel"),
            ):
                running = asyncio.create_task(cancelling)
                request = await raw.get()
                assert request["method"] == method
                raw.answer(request["id"], {})
                await running


@requirement("R-TCAN-01")
@BOTH
async def test_unsupported_cancellation_raises_an_error(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        async with session.events() as updates:
            raw.tell(*update("s1", sessionUpdate="tool_call_update", toolCallId="x", title="X"))
            await anext(aiter(updates))
        for call_id in ("x", "y"):
            with pytest.raises(LocalProtocolError, match=f"'{call_id}' cannot be cancelled"):
                await session.cancel_tool_call(call_id)
            with pytest.raises(LocalProtocolError, match=f"'{call_id}' cannot be cancelled"):
                await session.cancel_terminal(call_id)
