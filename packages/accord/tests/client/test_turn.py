"""Turns: events, end and cancellation, in both versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import (
    Agent,
    CancelTimeout,
    ClientSession,
    ConnectionLost,
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    MessageReplaced,
    StateChanged,
    Text,
    ToolCall,
    Turn,
    UnknownUpdate,
    UserText,
    connect,
    serve,
    v2,
)
from accord.transports.memory import pair
from client.wire_agents import BOTH, Speaker, agent_by_hand, session_with
from event_loop import drain_event_loop
from quirk import quirk
from raw_peer import QUICK, RawPeer
from requirement import requirement
from versions import only


async def greet(speaker: Speaker) -> None:
    await speaker.say("Hel")
    await speaker.say("lo")


@BOTH
async def test_text_of_a_turn_ends_where_the_next_one_begins(version: int) -> None:
    spoken = iter(["one", "two"])

    async def count(speaker: Speaker) -> None:
        word = next(spoken)
        await speaker.say(word, f"m {word}")

    async with session_with(version, count) as session:
        async with session.prompt("Hi") as first:
            assert first.text == ""
        async with session.prompt("Again") as second:
            pass
        assert (first.text, second.text) == ("one", "two")
        assert session.prompt("Never entered").text == ""


@BOTH
async def test_turn_is_iterated_and_then_has_its_stop_reason(version: int) -> None:
    async with session_with(version, greet) as session, session.prompt("Hi") as turn:
        assert turn.stop_reason is None
        events = [event async for event in turn]
    said = [event.text for event in events if isinstance(event, Text)]
    assert said == ["Hel", "lo"]
    assert turn.stop_reason == "end_turn"
    assert turn.text == "Hello"


async def test_both_versions_have_the_same_events() -> None:
    seen: list[Any] = []
    for version in (1, 2):
        async with session_with(version, greet) as session, session.prompt("Hi") as turn:
            seen.append(
                [event.text if isinstance(event, UserText) else event async for event in turn]
            )
    assert seen[0] == seen[1]
    assert seen[0] == [
        "Hi",
        StateChanged(state="running"),
        Text("Hel", "m1"),
        Text("lo", "m1"),
        StateChanged(state="idle", stop_reason="end_turn"),
    ]


@BOTH
async def test_leaving_a_turn_early_waits_for_its_end(version: int) -> None:
    ended = asyncio.Event()

    async def talk(speaker: Speaker) -> None:
        for _ in range(5000):
            await speaker.say("word ")
        ended.set()

    async with session_with(version, talk) as session:
        async with session.prompt("Hi") as turn:
            async for _ in turn:
                break
        assert ended.is_set()
        assert turn.stop_reason == "end_turn"
        assert session.transcript.text == "word " * 5000  # nothing is lost


@BOTH
async def test_turn_ends_without_iteration(version: int) -> None:
    async with session_with(version, greet) as session:
        async with session.prompt("Hi") as turn:
            assert await turn.wait() == "end_turn"
        async with session.prompt("Hi again") as turn:
            pass
        assert turn.stop_reason == "end_turn"


@requirement("R-CANCEL-01", "R-CANCEL-11")
@BOTH
async def test_cancelled_turn_ends_with_the_stop_reason_cancelled(version: int) -> None:
    async def wait(speaker: Speaker) -> None:
        await speaker.say("waiting")
        await asyncio.Event().wait()

    async with session_with(version, wait) as session, session.prompt("Hi") as turn:
        async for event in turn:
            if isinstance(event, Text):
                await turn.cancel()
                await turn.cancel()
    assert turn.stop_reason == "cancelled"


class Waiting(Agent):
    async def prompt(self, turn: Turn) -> None:
        await asyncio.Event().wait()


@BOTH
async def test_turn_can_be_cancelled_as_soon_as_it_is_entered(version: int) -> None:
    here, there = pair()
    serving = asyncio.ensure_future(serve(Waiting(), here, limits=QUICK))
    async with asyncio.timeout(20), connect(there, versions=only(version), limits=QUICK) as agent:
        session = await agent.new_session("/here")
        for _ in range(3):
            async with session.prompt("Hi") as turn:
                await turn.cancel()
            assert turn.stop_reason == "cancelled"
    await serving


@BOTH
async def test_turn_that_was_not_entered_cannot_be_cancelled(version: int) -> None:
    async with session_with(version, greet) as session:
        with pytest.raises(LocalProtocolError, match="Enter the turn"):
            await session.prompt("Hi").cancel()


@BOTH
async def test_exception_in_the_block_cancels_the_turn(version: int) -> None:
    cancelled = asyncio.Event()

    async def wait(speaker: Speaker) -> None:
        await speaker.say("waiting")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with session_with(version, wait) as session:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # a turn raises where it is left
            async with session.prompt("Hi") as turn:
                async for event in turn:
                    if isinstance(event, Text):
                        raise ZeroDivisionError
        assert cancelled.is_set()
        assert turn.stop_reason == "cancelled"


@BOTH
async def test_timeout_around_a_turn_cancels_it(version: int) -> None:
    async def wait(speaker: Speaker) -> None:
        await asyncio.Event().wait()

    async with session_with(version, wait) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), session.prompt("Hi") as turn:
                await turn.wait()
        assert turn.stop_reason == "cancelled"


@quirk("cancel-ignored")
@pytest.mark.parametrize("waits", ["iterating", "leaving", "waiting"])
@BOTH
async def test_agent_that_ignores_a_cancel_is_not_awaited_indefinitely(
    version: int, waits: str
) -> None:
    async with agent_by_hand(version) as (agent, raw), raw_session(agent, raw) as session:
        turn = session.prompt("Hi", cancel_timeout_s=60)
        ends = r"^The agent did not end the turn within 0.05 seconds after it was cancelled$"
        with pytest.raises(CancelTimeout, match=ends):  # noqa: PT012  # a turn raises where it is left
            async with turn:
                prompt = await raw.get()
                await turn.cancel(timeout_s=0.05)
                assert (await raw.get())["method"] == "session/cancel"
                if waits == "iterating":
                    async for _ in turn:
                        pass
                elif waits == "waiting":
                    await turn.wait()
        assert turn.stop_reason == "error"
        assert isinstance(turn.error, CancelTimeout)
        # A late event belongs to no turn, and the session can be used again.
        raw.answer(prompt["id"], {"stopReason": "cancelled", "messageId": "u1"})
        async with session.prompt("Again") as again:
            while (asked := await raw.get())["method"] != "session/prompt":
                pass
            raw.answer(asked["id"], {"stopReason": "end_turn", "messageId": "u2"})
            if version == 2:
                raw.tell(*idle("s1", stopReason="end_turn"))
        assert again.stop_reason == "end_turn"


async def test_agent_that_ends_a_cancelled_turn_in_time_is_not_reported_later() -> None:
    async with agent_by_hand(1) as (agent, raw), raw_session(agent, raw) as session:
        async with session.prompt("Hi", cancel_timeout_s=0.05) as turn:
            prompt = await raw.get()
            await turn.cancel()
            raw.answer(prompt["id"], {"stopReason": "cancelled"})
        assert turn.stop_reason == "cancelled"
        assert turn._deadline is not None
        assert turn._deadline.cancelled()


@requirement("R-CANCEL-02", "R-CANCEL-10")
@BOTH
async def test_open_tool_calls_are_cancelled_immediately_and_can_still_change(
    version: int,
) -> None:
    async def work(speaker: Speaker) -> None:
        types = speaker.types
        begin = types.ToolCall if version == 1 else types.ToolCallUpdate
        await speaker.show(begin(tool_call_id="a", title="A", status="completed"))
        await speaker.show(begin(tool_call_id="b", title="B", status="in_progress"))
        await speaker.say("go")
        try:
            await asyncio.Event().wait()
        finally:
            await speaker.show(types.ToolCallUpdate(tool_call_id="b", title="late"))

    async with session_with(version, work) as session:
        async with session.prompt("Hi") as turn:
            async for event in turn:
                if isinstance(event, Text):
                    await turn.cancel()
                    calls = session.transcript.tool_calls
                    assert [call.status for call in calls] == ["completed", "cancelled"]
        assert [call.title for call in session.transcript.tool_calls] == ["A", "late"]


@BOTH
async def test_second_turn_waits_for_the_first(version: int) -> None:
    async with session_with(version, greet) as session, session.prompt("Hi"):
        with pytest.raises(LocalProtocolError):
            async with session.prompt("And?"):
                pass


@BOTH
async def test_agent_that_dies_ends_the_turn_with_an_error(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw), raw_session(agent, raw) as session:
        with pytest.raises(ConnectionLost):  # noqa: PT012  # a turn raises where it is left
            async with session.prompt("Hi") as turn:
                request = await raw.get()
                if version == 2:
                    raw.answer(request["id"], {"messageId": "u1"})
                await raw.transport.aclose()
                async for _ in turn:
                    pass
        assert turn.stop_reason == "error"


@BOTH
async def test_rejected_prompt_raises_the_error_of_the_agent(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw), raw_session(agent, raw) as session:
        with pytest.raises(InvalidRequest):  # noqa: PT012  # a turn raises where it is left
            async with session.prompt("Hi"):
                request = await raw.get()
                raw.send({"jsonrpc": "2.0", "id": request["id"], "error": REFUSED})


@requirement("R-PROMPT-28")
async def test_failed_turn_of_v2_raises_like_an_error_response_of_v1() -> None:
    async with agent_by_hand(2) as (agent, raw), raw_session(agent, raw) as session:
        with pytest.raises(InternalError, match="out of luck"):  # noqa: PT012  # a turn raises where it is left
            async with session.prompt("Hi") as turn:
                request = await raw.get()
                raw.answer(request["id"], {"messageId": "u1"})
                error = {"code": -32603, "message": "out of luck"}
                raw.tell(*idle("s1", stopReason="error", error=error))
                async for _ in turn:
                    pass


ANSWER = "the answer to the prompt"
ECHO = {"sessionUpdate": "user_message", "messageId": "u1", "content": []}
RUNNING = {"sessionUpdate": "state_update", "state": "running"}
IDLE = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal"}
REFUSED = {"code": -32600, "message": "No"}
ODD = {"sessionUpdate": "state_update", "state": "_dreaming"}


@requirement("R-PROMPT-17", "R-PROMPT-31", "R-PROMPT-34")
@pytest.mark.parametrize(
    "order",
    [
        [ANSWER, ECHO, RUNNING, IDLE],
        [ECHO, RUNNING, ANSWER, IDLE],
        [RUNNING, ECHO, ANSWER, ODD, IDLE],
        [ECHO, RUNNING, IDLE, ANSWER],
        [RUNNING, ANSWER, IDLE],
        [RUNNING, IDLE, ANSWER],
        [ECHO, ANSWER, IDLE],
    ],
    ids=lambda order: "-".join(
        ANSWER[4:10] if o is ANSWER else o.get("state", "echo") for o in order
    ),
)
async def test_v2_turn_ends_with_the_idle_state_in_any_order(order: list[Any]) -> None:
    async with agent_by_hand(2) as (agent, raw), raw_session(agent, raw) as session:
        async with session.prompt("Hi") as turn:
            request = await raw.get()
            for step in order:
                assert turn.stop_reason is None
                if step is ANSWER:
                    raw.answer(request["id"], {"messageId": "u1"})
                else:
                    raw.tell("session/update", {"sessionId": "s1", "update": step})
                await asyncio.sleep(0)
        assert turn.stop_reason == "refusal"


@quirk("idle-without-reason")
async def test_v2_turn_that_ends_without_a_stop_reason_has_ended() -> None:
    async with agent_by_hand(2) as (agent, raw), raw_session(agent, raw) as session:
        async with session.prompt("Hi") as turn:
            raw.answer((await raw.get())["id"], {"messageId": "u1"})
            raw.tell(*idle("s1"))
        assert turn.stop_reason == "end_turn"


@requirement("R-PROMPT-31")
async def test_idle_state_of_earlier_work_does_not_end_the_turn() -> None:
    async with agent_by_hand(2) as (agent, raw), raw_session(agent, raw) as session:
        async with session.events() as updates:
            raw.tell("session/update", {"sessionId": "s1", "update": RUNNING})
            assert await anext(aiter(updates)) == StateChanged(state="running")
        async with session.prompt("Hi") as turn:
            request = await raw.get()
            raw.tell(*idle("s1", stopReason="end_turn"))
            raw.tell("session/update", {"sessionId": "s1", "update": RUNNING})
            raw.answer(request["id"], {"messageId": "u1"})
            raw.tell("session/update", {"sessionId": "s1", "update": ECHO})
            raw.tell(*idle("s1", stopReason="max_tokens"))
        assert turn.stop_reason == "max_tokens"


@requirement("R-PROMPT-31")
async def test_late_end_of_an_abandoned_turn_does_not_end_the_next_one() -> None:
    async with agent_by_hand(2) as (agent, raw), raw_session(agent, raw) as session:
        with pytest.raises(LookupError):
            async with session.prompt("Hi", cancel_timeout_s=0.01):
                raise LookupError
        async with session.prompt("Again") as turn:
            while (request := await raw.get()).get("method") != "session/prompt" or (
                request["params"]["prompt"][0]["text"] != "Again"
            ):
                pass
            raw.tell("session/update", {"sessionId": "s1", "update": RUNNING})
            raw.tell(*idle("s1", stopReason="cancelled"))
            raw.answer(request["id"], {"messageId": "u1"})
            raw.tell("session/update", {"sessionId": "s1", "update": ECHO})
            raw.tell(*idle("s1", stopReason="max_tokens"))
        assert turn.stop_reason == "max_tokens"


@quirk("updates-before-session")
@requirement("R-PROMPT-18")
@BOTH
async def test_updates_before_the_setup_response_and_after_the_turn_count(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        raw.tell(*title("s1", "early"))
        async with raw_session(agent, raw) as session:
            assert session.transcript.title == "early"
            async with session.events() as updates:
                raw.tell(*title("s1", "late"))
                await anext(aiter(updates))
            assert session.transcript.title == "late"


@quirk("unannounced-tool-call")
async def test_update_of_an_unannounced_tool_call_is_shown() -> None:
    async with agent_by_hand(1) as (agent, raw), raw_session(agent, raw) as session:
        async with session.events() as updates:
            update = {"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed"}
            raw.tell("session/update", {"sessionId": "s1", "update": update})
            event = await anext(aiter(updates))
        assert isinstance(event, ToolCall)
        assert (event.id, event.kind, event.status) == ("x", "other", "completed")


@quirk("unknown-updates")
@BOTH
async def test_update_of_an_unknown_type_is_shown_unchanged(version: int) -> None:
    async with (
        agent_by_hand(version) as (agent, raw),
        raw_session(agent, raw) as session,
        session.events() as updates,
    ):
        update = {"sessionUpdate": "_new", "n": 1}
        raw.tell("session/update", {"sessionId": "s1", "update": update})
        assert await anext(aiter(updates)) == UnknownUpdate(update)


@requirement("R-MSG-06", "R-MSG-07", "R-MSG-08")
async def test_v2_complete_message_is_extended_or_replaced() -> None:
    async def talk(speaker: Speaker) -> None:
        def whole(*texts: str) -> v2.AgentMessage:
            return v2.AgentMessage(
                message_id="m1", content=[v2.TextContent(text=text) for text in texts]
            )

        await speaker.show(whole("A"))
        await speaker.say("B")
        await speaker.show(whole("AB", "!"))
        await speaker.show(whole("C"))
        await speaker.say("D")

    async with session_with(2, talk) as session:
        async with session.prompt("Hi") as turn:
            events = [e async for e in turn if isinstance(e, Text | MessageReplaced)]
        assert events == [
            Text("A", "m1"),
            Text("B", "m1"),
            Text("!", "m1"),
            MessageReplaced("agent", "m1", ("C",)),
            Text("D", "m1"),
        ]
        assert session.transcript.text == "CD"


@pytest.mark.parametrize("size", [1, 30_000])
@BOTH
async def test_agent_waits_for_a_consumer_that_does_not_read(version: int, size: int) -> None:
    sent = 0
    text = "x" * size

    async def flood(speaker: Speaker) -> None:
        nonlocal sent
        for _ in range(30_000 // min(size, 3)):
            await speaker.say(text)
            sent += 1

    async with session_with(version, flood) as session:
        async with session.prompt("Hi") as turn:
            await drain_event_loop()
            held = sent
            taken = 0
            async for event in turn:
                if isinstance(event, Text):
                    taken += 1
                    if taken == 10:
                        await turn.cancel()
        assert 0 < held < 30_000 // min(size, 3)
        assert turn.stop_reason in ("cancelled", "end_turn")


async def test_slow_consumer_can_call_the_agent() -> None:
    async with agent_by_hand(1) as (agent, raw):
        opened = asyncio.create_task(agent.new_session("/work"))
        request = await raw.get()
        options = [
            {
                "id": "m",
                "name": "m",
                "type": "select",
                "category": "mode",
                "currentValue": "ask",
                "options": [{"value": "go", "name": "Go"}],
            }
        ]
        raw.answer(request["id"], {"sessionId": "s1", "configOptions": options})
        session = await opened
        async with session.prompt("Hi") as turn:
            prompt = await raw.get()
            chunk = {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "x"},
            }
            for _ in range(10_000):
                raw.tell("session/update", {"sessionId": "s1", "update": chunk})
            async for event in turn:
                if isinstance(event, Text):
                    break
            setting = asyncio.create_task(session.set_mode("go"))
            request = await raw.get()
            options[0]["currentValue"] = "go"
            raw.answer(request["id"], {"configOptions": options})
            await setting  # its response follows 10,000 updates that are not consumed
            raw.answer(prompt["id"], {"stopReason": "end_turn"})
        assert session.transcript.text == "x" * 10_000


def idle(session_id: str, **details: Any) -> tuple[str, Any]:
    update = {"sessionUpdate": "state_update", "state": "idle", **details}
    return "session/update", {"sessionId": session_id, "update": update}


def title(session_id: str, text: str) -> tuple[str, Any]:
    update = {"sessionUpdate": "session_info_update", "title": text}
    return "session/update", {"sessionId": session_id, "update": update}


@asynccontextmanager
async def raw_session(agent: Any, raw: RawPeer) -> AsyncGenerator[ClientSession, None]:
    opened = asyncio.create_task(agent.new_session("/work"))
    request = await raw.get()
    assert request["params"]["cwd"] == "/work"
    raw.answer(request["id"], {"sessionId": "s1"})
    yield await opened


@BOTH
@pytest.mark.parametrize("content", [None, 5, b"text"], ids=["none", "number", "bytes"])
async def test_prompt_with_invalid_content_fails(version: int, content: Any) -> None:
    async with session_with(version, greet) as session:
        with pytest.raises(TypeError, match=r"^prompt\(contents=…\), one of them: expected str"):
            session.prompt(content)
        async with session.prompt("Hi") as after:
            assert await after.wait() == "end_turn"
