"""The fast path of streamed text has the same events, order and limits as the general path."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import pytest
from msgspec import structs

from accord import BacklogExceeded, ClientTurn
from accord.client.agent_adapter import MessageText
from accord.connection import routes as streamed_text
from accord.connection.limits import FloodLog
from accord.connection.routes import Route, Routes, StreamedText, not_served
from client.test_backlog import begin_turn, end_turn, open_session, request_of
from client.wire_agents import BOTH, agent_by_hand
from event_loop import drain_event_loop
from raw_peer import QUICK, notification

TEXTS = (
    "plain",
    "",
    'with "quotes" and \\ backslashes \\" }}}}',
    "lines\nand\ttabs\x00\x1f",
    "ß € 𝄞 \u2028",
    '","x":{"text":"',
    "s1",
    "m",
)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that took the fast path."""
    texts: list[str] = []
    receive = MessageText.receive

    def recorded(self: MessageText, new: list[str], sizes: list[int]) -> None:
        texts.extend(new)
        receive(self, new, sizes)

    monkeypatch.setattr(MessageText, "receive", recorded)
    return texts


def chunk(text: str, *, session: str = "s1", message: str = "m", **more: Any) -> Any:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}
    return notification("session/update", {"sessionId": session, "update": {**update, **more}})


def frames(seed: int) -> list[Any]:
    """Return runs of chunks, mixed with other messages, unusual texts and unusual JSON."""
    rng = random.Random(seed)
    result: list[Any] = []
    for _ in range(60):
        kind = rng.randrange(9)
        if kind == 0:
            plan = {"sessionUpdate": "plan_removed", "planId": "p"}
            result.append(notification("session/update", {"sessionId": "s1", "update": plan}))
        elif kind == 1:
            result.append(chunk("another message", message=f"m{rng.randrange(2)}"))
        elif kind == 2:
            result.append(chunk("annotated", _meta={"a": 1}))
        elif kind == 3:
            result.append(b"not JSON")
            result.append(json.dumps(chunk("x")).encode()[:-1] + b"]")
        elif kind == 4:
            # Lone surrogates, and bytes that are not UTF-8.
            result.append(json.dumps(chunk("\ud800")).encode())
            result.append(json.dumps(chunk("?")).encode().replace(b"?", b"\xff"))
        elif kind == 5:
            result.append(json.dumps(chunk("x")).encode().replace(b'"x"', b'"x","text":"y"'))
        else:
            texts = [rng.choice(TEXTS) for _ in range(rng.randrange(1, 30))]
            ascii_only = rng.random() < 0.5
            result += (json.dumps(chunk(t), ensure_ascii=ascii_only).encode() for t in texts)
    return result


async def events_of(version: int, sent: list[Any], reads: list[int]) -> tuple[list[Any], Any]:
    """Return the events of a turn with these frames, and its transcript."""
    async with asyncio.timeout(20), agent_by_hand(version, unstable=True) as (agent, raw):
        session = await open_session(agent, raw, "s1")
        async with session.prompt("go") as turn:
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "s1", prompt)
            start = 0
            for size in reads:
                raw.send(*sent[start : start + size])
                start += size
                await asyncio.sleep(0)
            await end_turn(version, raw, "s1", prompt)
            events = [event async for event in turn]
        return events, session.transcript


@BOTH
@pytest.mark.parametrize("seed", range(6))
async def test_both_paths_have_the_same_events(
    version: int, seed: int, received: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = frames(seed)
    rng = random.Random(seed)
    reads = [rng.randrange(1, 40) for _ in sent]
    short = await events_of(version, sent, reads)
    assert received
    received.clear()
    monkeypatch.setattr(streamed_text, "_MIN_FRAMES", 10**9)
    long = await events_of(version, sent, reads)
    assert not received
    assert short == long
    assert short[1].text == long[1].text


@BOTH
async def test_both_paths_have_the_same_limit(
    version: int, received: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = await events_up_to_the_bound(version)
    assert received
    monkeypatch.setattr(streamed_text, "_MIN_FRAMES", 10**9)
    assert short == await events_up_to_the_bound(version)
    assert 100 <= len(short) <= 102  # the state of the turn is an event too


async def events_up_to_the_bound(version: int) -> list[Any]:
    limits = structs.replace(QUICK, backlog_messages=20, max_backlog_messages=100)
    events: list[Any] = []
    async with asyncio.timeout(20), agent_by_hand(version, limits=limits) as (agent, raw):
        session = await open_session(agent, raw, "s1")
        turn = session.prompt("go")
        with pytest.raises(BacklogExceeded):  # noqa: PT012  # the whole turn
            async with turn:
                prompt = await request_of(raw, "session/prompt")
                begin_turn(version, raw, "s1", prompt)
                raw.send(*(chunk(f"{n}.") for n in range(10)))
                await until_read()
                raw.send(*(chunk(f"{n}.") for n in range(10, 200)))
                await until_read()
                assert session.transcript.text == "".join(f"{n}." for n in range(200))
                await end_turn(version, raw, "s1", prompt)
                await collect(turn, events)
    return events


async def collect(turn: ClientTurn, events: list[Any]) -> None:
    async for event in turn:
        events += [event]


async def until_read() -> None:
    """Wait until the client has read all frames."""
    await drain_event_loop()


@BOTH
async def test_text_after_the_turn_is_sent_to_listeners(version: int, received: list[str]) -> None:
    async with asyncio.timeout(20), agent_by_hand(version) as (agent, raw):
        session = await open_session(agent, raw, "s1")
        async with session.prompt("go") as turn:
            prompt = await request_of(raw, "session/prompt")
            begin_turn(version, raw, "s1", prompt)
            raw.send(*(chunk("a") for _ in range(10)))
            raw.send(*(chunk("b") for _ in range(10)))
            await end_turn(version, raw, "s1", prompt)
            assert await turn.wait() == "end_turn"
        count = len(received)
        async with session.events() as events:
            raw.send(*(chunk("c") for _ in range(10)))
            late = [(await anext(events)).text for _ in range(10)]  # type: ignore[union-attr]
        assert late == ["c"] * 10
        assert len(received) == count
        assert session.transcript.text.endswith("c" * 10)


class _Receiver:
    text = "needle"
    has_ended = False

    def __init__(self) -> None:
        self.texts: list[str] = []

    def fits(self, method: str, params: Any, text: str) -> bool:
        return method == "say" and params == {"text": text}

    def receive(self, texts: list[str], sizes: list[int]) -> None:
        self.texts += texts


def _say(text: Any, **fields: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "method": "say", "params": {"text": text}, **fields}
    ).encode()


def test_other_frames_do_not_take_the_fast_path() -> None:
    reader, receiver = StreamedText(FloodLog(logging.getLogger("test"))), _Receiver()
    route = Route(decode=lambda text: json.loads(bytes(text)), handler=lambda *_: None)
    reader.serve(
        Routes(
            requests={},
            notifications={"say": route},
            context=lambda request_id: None,
            fallback=not_served,
        )
    )
    for last in (
        _say("needle", id=1),  # a request
        _say("needle").replace(b'"say"', b'"shout"'),
        _say("needle", more="needle"),  # the wrong one of two strings
        _say("other"),
        b'"needle"',
        b"needle",
    ):
        reader.offered = receiver
        reader.search([last] * 600)
        assert reader.receiver is None, last
    for _ in range(600):  # after failed searches it searches less often
        reader.offered = receiver
        reader.search([_say("needle")] * 8)
    assert reader.receiver is receiver
    odd = [_say(1), _say(None), _say("x", id=1), _say("x")[:-1], b"", _say("x") + b" "]
    for frame in odd:
        assert list(reader.take([_say("a"), frame, _say("b")])) == [frame, _say("b")]
    assert receiver.texts == ["a"] * len(odd)


@BOTH
async def test_half_of_a_surrogate_pair_at_the_end_of_a_part_loses_nothing(version: int) -> None:
    """An agent that splits an emoji into two chunks is read to the end of its turn."""
    halves = ("\ud83d", "\ude00")
    events, turn = await events_of(
        version, [*(chunk("a") for _ in range(15)), *map(chunk, halves), chunk("rest")], [18]
    )
    assert events
    assert turn.text.startswith("a" * 15)
    assert turn.text.endswith("rest")
