"""What a client missed, found by comparing its transcript with a replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    OptionsChanged,
    Plan,
    Role,
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UserText,
)
from accord.client.reconnect import Missed, missed_events
from accord.client.transcript import Message, Transcript
from accord.types.content import ImageContent
from accord.types.session import BooleanOption, PlanEntry
from requirement import requirement

IMAGE = ImageContent(data=b"x", mime_type="image/png")


def missed(held: Iterable[Event], replayed: Iterable[Event], turn_start: int = 0) -> Missed:
    return missed_events(Transcript.from_events(held), Transcript.from_events(replayed), turn_start)


def events(held: Iterable[Event], replayed: Iterable[Event]) -> list[Event]:
    return list(missed(held, replayed).events)


PROMPT = UserText("Why?", "prompt 1")


def call(status: str = "pending", **fields: Any) -> ToolCall:
    return ToolCall(id="t", title="Look", status=status, **fields)


CASES: dict[str, tuple[Sequence[Event], Sequence[Event], Sequence[Event]]] = {
    "nothing was missed": ([PROMPT, Text("a")], [UserText("Why?"), Text("a")], []),
    "nothing was held": ([], [UserText("Why?"), Text("a")], [UserText("Why?"), Text("a")]),
    "nothing was replayed": ([PROMPT, Text("a")], [], []),
    "end of a message": ([PROMPT, Text("Hel")], [UserText("Why?"), Text("Hello")], [Text("lo")]),
    "end of a message with another id": (
        [PROMPT, Text("Hel", "live")],
        [UserText("Why?"), Text("Hello", "stored")],
        [Text("lo", "live")],
    ),
    "end of a message with the same id": (
        [Text("Hel", "m"), call()],
        [Text("Hello", "m"), call()],
        [Text("lo", "m")],
    ),
    "less than was held": ([PROMPT, Text("Hello")], [UserText("Why?"), Text("Hel")], []),
    "prompt that the agent has not stored": (
        [PROMPT, Text("a"), UserText("And?", "prompt 2")],
        [UserText("Why?"), Text("a")],
        [],
    ),
    "messages that follow": (
        [PROMPT, Text("a")],
        [UserText("Why?"), Text("a"), UserText("And?"), Text("b")],
        [UserText("And?"), Text("b")],
    ),
    "equal messages": (
        [UserText("a", "1"), Text("ok"), UserText("a", "2")],
        [UserText("a"), Text("ok"), UserText("a"), Text("ok")],
        [Text("ok")],
    ),
    "last state of a tool call": (
        [call("in_progress", raw_input=1)],
        [call("completed", content=("x",))],
        [call("completed", content=("x",), raw_input=1, changed=("status", "content"))],
    ),
    "final status is kept": ([call("completed")], [call("in_progress")], []),
    "new tool call": (
        [PROMPT],
        [UserText("Why?"), call("failed")],
        [call("failed", changed=("title", "status"))],
    ),
    "replay without thoughts": (
        [PROMPT, Text("a"), Thought("hm"), Text("b")],
        [UserText("Why?"), Text("ab")],
        [],
    ),
    "replay without thoughts, and more": (
        [PROMPT, Text("a"), Thought("hm"), Text("b")],
        [UserText("Why?"), Text("abc"), call()],
        [Text("c"), call(changed=("title",))],
    ),
    "message that is divided in the replay": (
        [PROMPT, Text("ab"), call("completed")],
        [UserText("Why?"), Text("a", "1"), Text("b", "2"), call("completed")],
        [],
    ),
    "divided message, and more": (
        [PROMPT, Text("abc")],
        [UserText("Why?"), Text("ab", "1"), Text("cd", "2"), Text("e", "3")],
        [Text("d"), Text("e", "3")],
    ),
    "prompts that are merged in the replay": (
        [UserText("a", "1"), UserText("b", "2"), Text("c")],
        [UserText("ab"), Text("cd")],
        [Text("d")],
    ),
    "prompt with more around it": (
        [PROMPT, Text("a")],
        [UserText("<context/>Why?"), Text("ab")],
        [Text("b")],
    ),
    "something else in the middle": (
        [PROMPT, Text("a"), call("completed")],
        [UserText("Why?"), Thought("hm"), Text("a"), Text("!", "2"), call("completed")],
        [],
    ),
    "replaced message": (
        [Text("ab", "m")],
        [Text("xy", "m")],
        [MessageReplaced("agent", "m", ("xy",))],
    ),
    "image": (
        [PROMPT, ContentChunk(IMAGE)],
        [UserText("Why?"), ContentChunk(IMAGE), Text("a")],
        [Text("a")],
    ),
    "compaction": (
        [Compaction(id="c", status="in_progress")],
        [Compaction(id="c", status="completed", summary=("s",))],
        [Compaction(id="c", status="completed", summary=("s",))],
    ),
    "plan, title and options": (
        [Plan((PlanEntry("a"),)), TitleChanged("old")],
        [
            Plan((PlanEntry("b"),)),
            TitleChanged("new"),
            OptionsChanged((BooleanOption(id="o", name="O", value=True),)),
        ],
        [
            Plan((PlanEntry("b"),)),
            OptionsChanged((BooleanOption(id="o", name="O", value=True),)),
            TitleChanged("new"),
        ],
    ),
    "settings that are not replayed": ([Plan((PlanEntry("a"),)), TitleChanged("old")], [], []),
    "output of a terminal": (
        [AgentTerminal(id="1"), TerminalOutputChunk("1", b"ab")],
        [AgentTerminal(id="1", exited=True), TerminalOutputChunk("1", b"abc")],
        [AgentTerminal(id="1", exited=True), TerminalOutputChunk("1", b"c")],
    ),
    "end of the output of a terminal": (
        [AgentTerminal(id="1"), TerminalOutputChunk("1", b"abc")],
        [AgentTerminal(id="1"), TerminalOutputChunk("1", b"bc")],
        [],
    ),
}


@requirement("R-WS-17")
@pytest.mark.parametrize("case", CASES)
def test_only_what_is_new_is_delivered(case: str) -> None:
    held, replayed, expected = CASES[case]
    assert events(held, replayed) == list(expected)


@pytest.mark.parametrize(
    ("replayed", "has_prompt"),
    [
        ([], None),
        ([UserText("a"), Text("b")], False),
        ([UserText("a"), Text("b"), UserText("a")], True),
    ],
)
def test_prompt_is_found_in_the_replay(replayed: list[Event], has_prompt: bool | None) -> None:
    held = [UserText("a", "prompt 1"), Text("b"), UserText("a", "prompt 2")]
    assert missed(held, replayed, 2).has_prompt is has_prompt


def test_prompt_that_was_not_echoed_is_found_in_the_replay() -> None:
    found = missed(
        [UserText("a", "1"), Text("b")], [UserText("a", "1"), Text("b"), UserText("c", "2")], 2
    )
    assert found.has_prompt is True


# A session, cut anywhere, and the ways to replay it.

_CHUNKS = st.sampled_from(["a", "b", "ab", "ba", "aa", " "])
_STEPS = st.one_of(
    st.tuples(st.just("text"), st.lists(_CHUNKS, min_size=1, max_size=4)),
    st.tuples(st.just("thought"), st.lists(_CHUNKS, min_size=1, max_size=2)),
    st.tuples(st.just("tool"), st.just([])),
)
_TURNS = st.lists(st.tuples(_CHUNKS, st.lists(_STEPS, max_size=5)), min_size=1, max_size=4)


def _live(turns: list[tuple[str, list[tuple[str, list[str]]]]], with_ids: bool) -> list[Event]:
    """Return the events of a session as they are sent."""
    sent: list[Event] = []
    for number, (prompt, steps) in enumerate(turns):
        sent.append(UserText(prompt, f"prompt {number}"))
        for place, (kind, chunks) in enumerate(steps):
            name = f"{number}-{place}"
            message_id = name if with_ids else None
            if kind == "tool":
                sent += [
                    ToolCall(id=name, title="T"),
                    ToolCall(id=name, title="T", status="in_progress"),
                    ToolCall(id=name, title="T", status="completed"),
                ]
            else:
                event = Text if kind == "text" else Thought
                sent += [event(chunk, message_id) for chunk in chunks]
    return sent


def _replay(sent: list[Event], ids: str, thoughts: bool) -> list[Event]:
    """Return events as they are replayed: merged, in their last state."""
    replayed: list[Event] = []
    for event in Transcript.from_events(sent).events():
        if isinstance(event, Thought) and not thoughts:
            continue
        if isinstance(event, UserText):
            event = replace(event, message_id=event.message_id if ids == "same" else None)
        elif isinstance(event, Text | Thought) and ids != "same":
            event = replace(event, message_id=None)
        replayed.append(event)
    if ids == "new":
        whole = Transcript.from_events(replayed)
        for item in whole.items:
            if isinstance(item, Message):
                item.id = f"new {id(item)}"
        replayed = list(whole.events())
    return replayed


def _words(transcript: Transcript, role: Role) -> str:
    return "".join(m.text for m in transcript.messages if m.role == role)


def _order(transcript: Transcript) -> list[str]:
    """Return the conversation without the borders between its messages."""
    named = [
        (item.role, item.text) if isinstance(item, Message) else ("tool", item.id)
        for item in transcript.items
        if not (isinstance(item, Message) and item.role == "thought")
    ]
    return [
        f"{role}: {''.join(text for _, text in group)}"
        for role, group in groupby(named, key=lambda each: each[0])
    ]


@requirement("R-WS-17")
@settings(max_examples=100, deadline=None)
@given(
    turns=_TURNS,
    cut=st.integers(0, 200),
    ids=st.sampled_from(["same", "none", "new"]),
    with_ids=st.booleans(),
    thoughts=st.booleans(),
)
def test_session_that_is_cut_anywhere_is_continued_without_a_gap_or_a_duplicate(
    turns: list[tuple[str, list[tuple[str, list[str]]]]],
    cut: int,
    ids: str,
    with_ids: bool,
    thoughts: bool,
) -> None:
    sent = _live(turns, with_ids)
    received = sent[: cut % (len(sent) + 1)]
    held, whole = Transcript.from_events(received), Transcript.from_events(sent)
    replayed = Transcript.from_events(_replay(sent, ids, thoughts))
    for event in missed_events(held, replayed, 0).events:
        held.apply(event)
    assert _order(held) == _order(whole)
    assert _words(held, "user") == _words(whole, "user")
    assert {c.id: c.status for c in held.tool_calls} == {c.id: c.status for c in whole.tool_calls}
    if thoughts:
        assert _words(held, "thought") == _words(whole, "thought")
    again = missed_events(held, replayed, 0)
    assert not again.events


def test_long_history_of_which_nothing_is_held_is_compared_in_linear_time() -> None:
    held = [Text(f"ours {number}", f"h{number}") for number in range(5000)]
    replayed = [Text(f"theirs {number}", f"r{number}") for number in range(5000)]
    assert events(held, replayed) == replayed  # a quadratic time exceeds that of a test
