"""Updates of a session arrive in the order in which the agent made them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import accord
from accord import Agent, MemoryStore, Session, Turn
from accord.wire.base import UNSET
from agent.harness import BOTH, V1, V2, connect_client
from event_loop import drain_event_loop

STORES = pytest.mark.parametrize("kept", [False, True], ids=["no store", "store"])


def _agent(work: Any, *, kept: bool) -> Agent:
    class Works(Agent):
        store = MemoryStore() if kept else None

        async def prompt(self, turn: Turn) -> None:
            await work(turn)

    return Works()


def _seen(updates: list[Any]) -> list[str]:
    """Return every piece of text in the order in which it first appeared."""
    found: list[str] = []
    shown: dict[str, str] = {}
    for update in updates:
        match type(update).__name__:
            case "AgentMessageChunk" | "AgentThoughtChunk":
                found.append(update.content.text)
            case "ToolCall" | "ToolCallUpdate" | "ToolCallContentChunk":
                tool_id = update.tool_call_id
                content = getattr(update, "content", None)
                if content in (None, UNSET):
                    continue
                if isinstance(content, list):
                    text = "".join(item.content.text for item in content)
                else:
                    text = shown.get(tool_id, "") + content.content.text
                before = shown.get(tool_id, "")
                assert text.startswith(before)
                found += text.removeprefix(before)
                shown[tool_id] = text
            case "PlanUpdate" | "Plan":
                found.append("PLAN")
            case "UsageUpdate":
                found.append("USAGE")
            case _:
                pass
    return found


_BETWEEN = {
    "say": lambda turn: turn.say("SAID"),
    "think": lambda turn: turn.think("SAID"),
    "plan": lambda turn: turn.plan(["PLAN"]),
    "usage": lambda turn: turn.set_context_usage(1, 2),
    "notice": lambda turn: turn.show_notice("SAID"),
}


@BOTH
@STORES
@pytest.mark.parametrize("between", _BETWEEN)
async def test_updates_after_streamed_text_arrive_after_it(
    version: int, kept: bool, between: str
) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Run") as call:
            for letter in "abc":
                await call.append_text(letter)
            await _BETWEEN[between](turn)
            await call.append_text("d")

    async with connect_client(_agent(work, kept=kept), version) as client:
        await client.prompt("go")
        seen = [text for text in _seen(client.updates) if text != ""]
        marks = {"plan": "PLAN", "usage": "USAGE"}
        expected = ["a", "b", "c", marks.get(between, "SAID"), "d"]
        if between == "notice" and version == V2:
            expected.remove("SAID")  # an update of a different type
        assert seen == expected


@BOTH
@STORES
async def test_order_does_not_depend_on_the_store(version: int, kept: bool) -> None:
    """Streams, content and messages in any order arrive alike with and without a store."""

    async def work(turn: Turn) -> None:
        async with turn.tool("Run") as call:
            for place, act in enumerate(turn.text):
                match act:
                    case "s":
                        await call.append_text(str(place))
                    case "c":
                        await call.add_content(str(place))
                    case _:
                        await turn.say(str(place))

    async with connect_client(_agent(work, kept=kept), version) as client:
        for program in map("".join, itertools.product("sct", repeat=4)):
            client.updates.clear()
            await client.prompt(program)
            assert _seen(client.updates) == ["0", "1", "2", "3"], program


@pytest.mark.parametrize("how", ["form", "extension", "end"])
async def test_v1_permission_request_follows_the_content_of_tool_calls(how: str) -> None:
    seen: list[str] = []

    async def work(turn: Turn) -> None:
        async def show(call: Any) -> None:
            for letter in "abc":
                await call.append_text(letter)
            begun.set()
            await over.wait()

        begun, over = asyncio.Event(), asyncio.Event()
        call = await turn.run_in_background("Run", show)
        await begun.wait()
        match how:
            case "extension":
                await turn.notify_extension("_asked")
            case "form":
                with pytest.raises(accord.NotOffered):
                    await turn.elicit_url("https://example.com", "Look")
            case _:
                pass
        await drain_event_loop()
        seen.extend(_seen(client.updates))
        over.set()
        call.cancel()

    async with connect_client(_agent(work, kept=False), V1) as client:
        await client.prompt("go")
        if how == "end":
            seen = _seen(client.updates)
        assert seen == ["a", "b", "c"]


async def test_v1_closed_session_sends_nothing_late() -> None:
    sessions: list[Session] = []

    async def work(turn: Turn) -> None:
        sessions.append(turn.session)
        async with turn.tool("Run") as call:
            await call.append_text("a")
            await call.append_text("b")
            await asyncio.Event().wait()

    async with connect_client(_agent(work, kept=False), V1) as client:
        sent = client.send("go")
        await client.until(lambda: client.of("ToolCallUpdate"))
        await client.remote.close_session(
            client.types.CloseSessionRequest(session_id=client.session_id)
        )
        await sent
        adapter = sessions[0]._core.client_adapter
        assert not adapter._tool_content.unsent(client.session_id)  # type: ignore[attr-defined]
        assert not adapter._tool_content._buffers  # type: ignore[attr-defined]
