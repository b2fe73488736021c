"""A slow consumer holds back only its own session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from accord import BacklogExceeded, ClientSession, ConnectedAgent, Text
from client.wire_agents import BOTH, ByHand, agent_by_hand
from event_loop import drain_event_loop
from raw_peer import QUICK, notification
from requirement import requirement

LIMITS = structs.replace(QUICK, backlog_messages=50, max_backlog_messages=5000)


def chunk(session_id: str, n: int, size: int = 1) -> Any:
    content = {"type": "text", "text": f"{n} ".ljust(size, "x")}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "m"}
    return notification("session/update", {"sessionId": session_id, "update": update})


async def send_until_congested(raw: ByHand, session_id: str, most: int = 20_000) -> int:
    """Send updates until the client does not read them; return how many were sent."""
    for n in range(most):
        raw.send(chunk(session_id, n))
        if n % 10 == 0:
            await drain_event_loop()
            if raw.transport.congested:
                return n + 1
    return most


async def open_session(agent: ConnectedAgent, raw: ByHand, session_id: str) -> ClientSession:
    """Open a session, dropping the messages before the request."""
    opening = asyncio.create_task(agent.new_session("/"))
    raw.answer((await request_of(raw, "session/new"))["id"], {"sessionId": session_id})
    return await opening


async def request_of(raw: ByHand, method: str) -> Any:
    while (message := await raw.get()).get("method") != method:
        pass
    return message


async def end_turn(version: int, raw: ByHand, session_id: str, prompt: Any) -> None:
    if version == 1:
        raw.answer(prompt["id"], {"stopReason": "end_turn"})
        return
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    raw.tell("session/update", {"sessionId": session_id, "update": idle})


def begin_turn(version: int, raw: ByHand, session_id: str, prompt: Any) -> None:
    if version == 2:
        user = {"sessionUpdate": "user_message", "messageId": f"u {session_id}", "content": []}
        running = {"sessionUpdate": "state_update", "state": "running"}
        for update in (user, running):
            raw.tell("session/update", {"sessionId": session_id, "update": update})
        raw.answer(prompt["id"], {"messageId": f"u {session_id}"})


@asynccontextmanager
async def by_hand(version: int, **limits: Any) -> AsyncGenerator[tuple[ConnectedAgent, ByHand]]:
    async with (
        asyncio.timeout(3),
        agent_by_hand(version, limits=structs.replace(LIMITS, **limits)) as both,
    ):
        yield both


@BOTH
async def test_only_the_agent_of_a_slow_consumer_waits_and_nothing_is_lost(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await open_session(agent, raw, "a")
        async with session.prompt("Hi") as turn:
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "a", prompt)
            await drain_event_loop()
            sent = await send_until_congested(raw, "a")
            assert raw.transport.congested
            await end_turn(version, raw, "a", prompt)
            numbers = [int(e.text.split()[0]) async for e in turn if isinstance(e, Text)]
        assert numbers == list(range(sent))
        assert turn.stop_reason == "end_turn"


@requirement("R-GEN-17")
@BOTH
async def test_calls_of_a_slow_consumer_return(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await open_session(agent, raw, "a")
        numbers: list[int] = []
        async with session.prompt("Hi") as turn:
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "a", prompt)
            await drain_event_loop()
            sent = await send_until_congested(raw, "a")
            assert raw.transport.congested
            async for event in turn:
                if not isinstance(event, Text):
                    continue
                if not numbers:
                    other = await open_session(agent, raw, "b")
                    async with other.prompt("Ho") as inner:
                        asked = await request_of(raw, "session/prompt")
                        begin_turn(version, raw, "b", asked)
                        raw.send(chunk("b", 7))
                        await end_turn(version, raw, "b", asked)
                        assert [e.text async for e in inner if isinstance(e, Text)] == ["7 "]
                    await other.cancel()
                    await end_turn(version, raw, "a", prompt)
                numbers.append(int(event.text.split()[0]))
        assert numbers == list(range(sent))


@BOTH
async def test_other_sessions_do_not_wait_for_a_slow_consumer(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        slow, quick = await open_session(agent, raw, "a"), await open_session(agent, raw, "b")
        async with slow.prompt("Hi") as turn:
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "a", prompt)
            await send_until_congested(raw, "a", most=2000)
            assert not raw.transport.congested
            options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
            params: dict[str, Any] = {"sessionId": quick.id, "options": options}
            details = {"toolCallId": "c", "title": "Do it"}
            more = {"title": "May I?", "subject": {"type": "tool_call", "toolCall": details}}
            raw.ask("p", "session/request_permission", params | more | {"toolCall": details})
            assert (await raw.get())["id"] == "p"
            await end_turn(version, raw, "a", prompt)
            assert len([e async for e in turn if isinstance(e, Text)]) == 2000


@BOTH
@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_backlog_messages": 500}, "max_backlog_messages"),
        ({"max_backlog_bytes": 200_000}, "max_backlog_bytes"),
        ({"total_backlog_bytes": 200_000}, "total_backlog_bytes"),
    ],
)
async def test_turn_fails_at_the_limit_and_other_sessions_continue(
    version: int, limits: dict[str, int], limit: str
) -> None:
    async with by_hand(version, **limits) as (agent, raw):
        slow, quick = await open_session(agent, raw, "a"), await open_session(agent, raw, "b")
        numbers: list[int] = []

        async def run_slow_turn() -> None:
            async with slow.prompt("Hi", cancel_timeout_s=0.01) as turn:
                prompt = await request_of(raw, "session/prompt")
                begin_turn(version, raw, "a", prompt)
                await send_until_congested(raw, "a", most=2000)
                assert (await request_of(raw, "session/cancel"))["params"] == {"sessionId": "a"}
                async for event in turn:
                    numbers.extend([int(event.text.split()[0])] if isinstance(event, Text) else [])

        said = rf"has (more than|the most of) \d+ .*messages.* waiting \(Limits\.{limit}\)"
        with pytest.raises(BacklogExceeded, match=said) as caught:
            await run_slow_turn()
        assert caught.value.limit == limit
        assert 100 < len(numbers) < 1000
        assert numbers == list(range(len(numbers)))
        assert slow.transcript.text.endswith("1999 ")  # all text of the agent has arrived
        async with quick.prompt("Ho"):
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "b", prompt)
            await end_turn(version, raw, "b", prompt)


@BOTH
async def test_updates_outside_turns_fail_for_a_consumer_that_does_not_read(version: int) -> None:
    async with by_hand(version, max_backlog_messages=500) as (agent, raw):
        session = await open_session(agent, raw, "a")
        await open_session(agent, raw, "b")
        async with session.events() as slow, session.events() as quick:
            taking = asyncio.ensure_future(anext(aiter(quick)))
            await send_until_congested(raw, "a", most=600)
            await taking
            with pytest.raises(BacklogExceeded):
                async for _ in slow:
                    pass


@BOTH
async def test_closed_consumer_blocks_nothing(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await open_session(agent, raw, "a")
        async with session.events():
            await send_until_congested(raw, "a")
            assert raw.transport.congested
        await drain_event_loop()
        assert not raw.transport.congested
        assert await send_until_congested(raw, "a", most=3000) == 3000


@BOTH
async def test_flood_of_updates_for_unknown_sessions_is_logged_in_one_line(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with by_hand(version) as (_, raw):
        for n in range(1000):
            raw.send(chunk(f"unknown {n}", n))
        await drain_event_loop()
        warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert warnings == ["! dropped updates: too many sessions that this client has not opened"]
