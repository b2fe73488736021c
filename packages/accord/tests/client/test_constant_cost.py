"""Costs of the client that do not grow with the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import v2
from accord.client.agent_adapter import SessionEventStream, SessionSetup
from accord.client.events import ContentChunk, MessageReplaced, Text, Thought, ToolCall, UserText
from accord.client.handlers import ClientHandlers
from accord.client.transcript import AgentText, Message, Transcript, merge_texts, read_agent_text
from accord.client.v1 import events_from_update as read_v1
from accord.client.v2 import SharedSequence, appended
from accord.client.v2 import events_from_update as read_v2
from accord.types.content import ImageContent, ResourceLink, text_of
from growth import Cost, cost_of, is_flat

FEW, MANY = 200, 3_000
HERE = SessionSetup(cwd="/")


def assert_flat(made: Callable[[int], Callable[[], Any]]) -> None:
    few, many = cost_of(made(FEW)), cost_of(made(MANY))
    assert is_flat(few, many), f"{FEW}: {few}, {MANY}: {many}"


def test_measured_growth_is_detected() -> None:
    few, many = cost_of(lambda: list(range(FEW))), cost_of(lambda: list(range(MANY)))
    assert not is_flat(few, many)
    assert is_flat(Cost(10, 100), Cost(12, 150))
    assert not is_flat(Cost(10, 100), Cost(100, 100))


def test_cost_of_opening_a_session_is_independent_of_open_sessions() -> None:
    def made(sessions: int) -> Callable[[], Any]:
        handlers = ClientHandlers(None)
        for number in range(sessions):
            handlers.event_stream(f"s{number}", read_v1)
            handlers.open(f"s{number}", HERE, read_v1)
        ids = iter(f"new{number}" for number in range(10))

        def open_one() -> None:
            name = next(ids)
            handlers.event_stream(name, read_v1)
            handlers.open(name, HERE, read_v1)

        return open_one

    assert_flat(made)


def test_cost_of_an_unknown_session_is_independent_of_open_sessions() -> None:
    def made(sessions: int) -> Callable[[], Any]:
        handlers = ClientHandlers(None)
        for number in range(sessions):
            handlers.open(f"s{number}", HERE, read_v1)
        for number in range(300):
            handlers.event_stream(f"unopened{number}", read_v1)
        return lambda: (handlers.find_setup("unknown"), handlers.event_stream("unknown", read_v1))

    assert_flat(made)


def test_cost_of_a_tool_content_chunk_is_independent_of_earlier_content() -> None:
    chunk = v2.ToolCallContentChunk(
        tool_call_id="t", content=v2.Content(content=v2.TextContent(text="x"))
    )

    def made(chunks: int) -> Callable[[], Any]:
        stream = SessionEventStream("s", read_v2)
        for _ in range(chunks):
            stream.receive(chunk)
        return lambda: stream.receive(chunk)

    assert_flat(made)


def test_slow_consumer_keeps_no_copies_of_tool_content() -> None:
    def held(chunks: int) -> int:
        transcript = Transcript()
        waiting = []
        for number in range(chunks):
            known = transcript.tool_call("t") or ToolCall(id="t")
            event = ToolCall(id="t", content=appended(known.content, str(number)))
            transcript.apply(event)
            waiting.append(event)
        assert all(event.content._items is waiting[0].content._items for event in waiting)
        assert [len(event.content) for event in waiting] == list(range(1, chunks + 1))
        return len(waiting)

    assert held(1000) == 1000


def said(transcript: Transcript, pieces: int) -> None:
    for number in range(pieces):
        message_id = f"m{number // 100}"
        transcript.apply(Text(f"piece {number} ", message_id))
        if number % 100 == 50:
            transcript.apply(Thought("hm", "t"))


@pytest.mark.parametrize("messages", ["one", "several"])
@pytest.mark.parametrize("of", ["message", "turn", "transcript"])
def test_cost_of_reading_text_per_event_is_independent_of_its_length(
    of: str, messages: str
) -> None:
    def made(pieces: int) -> Callable[[], Any]:
        transcript = Transcript()
        text = AgentText(0)
        reads: dict[str, Callable[[], str]] = {
            "message": lambda: last.text,
            "turn": lambda: read_agent_text(transcript, text),
            "transcript": lambda: transcript.text,
        }
        if messages == "one":
            for _ in range(pieces):
                transcript.apply(Text("piece "))
        else:
            said(transcript, pieces)
        last = transcript.messages[-1]
        read = reads[of]

        def more() -> int:
            size = 0
            for _ in range(50):
                transcript.apply(Text("more ", last.id))
                size = len(read())
            return size

        return more

    assert_flat(made)


def test_cost_of_a_prompt_is_independent_of_earlier_prompts() -> None:
    def made(prompts: int) -> Callable[[], Any]:
        transcript = Transcript()
        for number in range(prompts):
            transcript.apply(UserText("Hi", f"u{number}"))
            transcript.apply(Text("Hello", f"a{number}"))
            transcript.apply(ToolCall(id=f"t{number}", status="completed"))
        return lambda: (transcript.prompt_count, transcript.open_tool_calls)

    assert_flat(made)


# Incremental results equal those of a single step.

CONTENT = st.one_of(
    st.sampled_from(["", "a", "bc", "\n", "Grüße ✓"]),
    st.just(ResourceLink(uri="file:///x", name="x")),
    st.just(ImageContent(b"", "image/png")),
)


@given(st.lists(CONTENT), st.lists(st.booleans()))
def test_message_does_not_depend_on_how_often_it_is_read(contents: list[Any], reads: Any) -> None:
    message = Message("agent", None)
    looks = [*reads, *([False] * len(contents))]
    for number, (content, look) in enumerate(zip(contents, looks, strict=False), 1):
        message.append(content)
        if look:
            assert message.text == text_of(merge_texts(contents[:number]))
    assert message.content == merge_texts(contents)
    assert message.text == text_of(merge_texts(contents))
    message.replace(("x", *contents))
    assert message.text == text_of(merge_texts(("x", *contents)))


IDS = st.sampled_from([None, "a", "b", "c"])
EVENT = st.one_of(
    st.builds(Text, st.sampled_from(["", "x", "yz"]), IDS),
    st.builds(ContentChunk, st.just(ResourceLink(uri="u", name="n")), st.just("agent"), IDS),
    st.builds(Thought, st.just("hm"), IDS),
    st.builds(UserText, st.just("Hi"), IDS),
    st.builds(MessageReplaced, st.just("agent"), st.sampled_from(["a", "b"]), st.just(("new",))),
    st.builds(ToolCall, id=st.just("t")),
)


@given(st.lists(EVENT), st.integers(0, 3), st.integers(0, 8))
def test_text_of_a_turn_does_not_depend_on_how_often_it_is_read(
    events: list[Any], first: int, until: int
) -> None:
    transcript = Transcript()
    turn, part, rarely = AgentText(first), AgentText(0), AgentText(first)
    for number, event in enumerate(events):
        transcript.apply(event)
        assert transcript.text == text_from(transcript, 0, None)
        assert read_agent_text(transcript, turn) == text_from(transcript, first, None)
        assert read_agent_text(transcript, part, until) == text_from(transcript, 0, until)
        if number % 3 == 2:
            assert read_agent_text(transcript, rarely) == text_from(transcript, first, None)


def text_from(transcript: Transcript, first: int, until: int | None) -> str:
    messages = [item for item in transcript.items[first:until] if isinstance(item, Message)]
    texts = [text_of(message.content) for message in messages if message.role == "agent"]
    return "\n\n".join(text for text in texts if text)


@given(st.lists(st.integers()), st.integers(-5, 5), st.integers(-5, 5))
def test_shared_sequence_behaves_like_a_tuple(items: list[int], start: int, stop: int) -> None:
    shared: Any = SharedSequence([], 0)
    for item in items:
        shared = shared.plus(item)
    branch = shared.plus(1)
    other = shared.plus(2)
    whole = tuple(items)
    assert (shared, branch, other) == (whole, (*whole, 1), (*whole, 2))
    assert whole == shared
    assert shared[start:stop] == whole[start:stop]
    assert (len(shared), hash(shared), repr(shared)) == (len(whole), hash(whole), repr(whole))
    assert [shared[n] for n in range(-len(whole), len(whole))] == [*whole, *whole]
    with pytest.raises(IndexError):
        shared[len(whole)]
    assert shared != list(whole)
    assert appended(whole, 3) == appended(shared, 3) == (*whole, 3)
    assert branch == appended(whole, 1)
