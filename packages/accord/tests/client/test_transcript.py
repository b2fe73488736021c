"""Transcripts: the updates of both versions accumulate, and the result can be replayed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord import (
    ContentChunk,
    MessageReplaced,
    ModeChanged,
    OptionsChanged,
    Plan,
    SelectOption,
    Text,
    TokenUsage,
    ToolCall,
    Transcript,
    UserText,
    v1,
    v2,
)
from accord.client.agent_adapter import SessionEventStream
from accord.client.transcript import append_texts
from accord.client.v1 import READERS as READERS_V1
from accord.client.v1 import events_from_update as read_v1
from accord.client.v2 import READERS as READERS_V2
from accord.client.v2 import events_from_update as read_v2
from accord.wire.base import UNSET, Members, Unknown
from requirement import requirement

IDS = st.sampled_from(["a", "b"])
TEXT = st.sampled_from(["", "x", "Grüße ", "\n"])
PICTURE: Any = {"data": "AAEC", "mime_type": "image/png"}


def blocks(types: Any) -> st.SearchStrategy[Any]:
    return st.one_of(
        TEXT.map(lambda text: types.TextContent(text=text)),
        st.just(types.ImageContent(**PICTURE)),
        st.just(types.ImageContent(data="no base64", mime_type="image/png")),
        st.just(types.ResourceLink(uri="file:///x", name="x")),
    )


def contents(types: Any) -> st.SearchStrategy[Any]:
    return st.lists(
        st.one_of(
            blocks(types).map(lambda block: types.Content(content=block)),
            IDS.map(lambda terminal: types.Terminal(terminal_id=terminal)),
        ),
        max_size=2,
    )


def some(value: st.SearchStrategy[Any], *nothing: Any) -> st.SearchStrategy[Any]:
    return st.one_of(*map(st.just, nothing), value)


def fields(types: Any, *nothing: Any) -> dict[str, st.SearchStrategy[Any]]:
    places = st.lists(st.just(types.ToolCallLocation(path="/x", line=3)), max_size=1)
    return {
        "title": some(TEXT, *nothing),
        "name": some(TEXT, *nothing),
        "kind": some(st.sampled_from(["edit", "other"]), *nothing),
        "status": some(st.sampled_from(["pending", "completed"]), *nothing),
        "content": some(contents(types), *nothing),
        "locations": some(places, *nothing),
        "raw_input": some(st.just({"n": [1]}), *nothing),
    }


def chunks(types: Any, ids: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    return [
        st.builds(cls, content=blocks(types), message_id=ids)
        for cls in (types.AgentMessageChunk, types.AgentThoughtChunk, types.UserMessageChunk)
    ]


def states(types: Any) -> list[Any]:
    return [
        types.RunningState(),
        types.RequiresActionState(),
        types.UnknownState(),
        types.IdleState(stop_reason="error", error=types.Error(code=-32603, message="No")),
        Unknown("_dreaming", {"state": "_dreaming"}),
    ]


def common(types: Any) -> list[st.SearchStrategy[Any]]:
    entry = types.PlanEntry(content="Do it", priority="high", status="pending")
    status = st.sampled_from(["in_progress", "completed"])
    summary = some(st.lists(blocks(types), max_size=2), None, UNSET)
    return [
        st.just(types.Notice(severity="info", title="Hear")),
        st.builds(
            types.SessionInfoUpdate,
            title=some(TEXT, None, UNSET),
            updated_at=some(TEXT, None, UNSET),
        ),
        st.builds(types.UsageUpdate, used=st.integers(0, 9), size=st.just(9)),
        st.builds(types.CompactionUpdate, compaction_id=IDS, status=status, summary=summary),
        st.builds(types.CompactionSummaryChunk, compaction_id=IDS, content=blocks(types)),
        st.builds(types.PlanRemoved, plan_id=IDS),
        st.builds(
            types.SubagentUpdate,
            session_id=IDS,
            title=some(TEXT, None, UNSET),
            state=some(st.sampled_from(states(types)), None, UNSET),
            cwd=some(st.just("/x"), None, UNSET),
            additional_directories=some(st.just(["/y"]), None, UNSET),
        ),
        st.builds(
            types.SessionMessage,
            message_id=IDS,
            sender_session_id=some(IDS, None, UNSET),
            content=some(st.lists(blocks(types), max_size=2), None, UNSET),
        ),
        st.builds(types.SessionMessageChunk, message_id=IDS, content=blocks(types)),
        st.builds(
            types.PlanUpdate,
            plan=st.builds(types.PlanItems, plan_id=IDS, entries=st.just([entry])),
        ),
    ]


V1 = st.lists(
    st.one_of(
        *chunks(v1, some(IDS, None)),
        *common(v1),
        st.builds(v1.ToolCall, tool_call_id=IDS, title=TEXT, content=contents(v1)),
        st.builds(v1.ToolCallUpdate, tool_call_id=IDS, **fields(v1, None)),
        st.builds(v1.CurrentModeUpdate, current_mode_id=IDS),
        st.just(v1.Plan(entries=[])),
    ),
    max_size=25,
)
DATA = st.sampled_from(["", "4pyT", "4g==", "no base64"])
V2 = st.lists(
    st.one_of(
        *chunks(v2, IDS),
        *common(v2),
        *(
            st.builds(
                cls,
                message_id=IDS,
                content=some(st.lists(blocks(v2), max_size=3), None, UNSET),
            )
            for cls in (v2.AgentMessage, v2.AgentThought, v2.UserMessage)
        ),
        st.builds(v2.ToolCallUpdate, tool_call_id=IDS, **fields(v2, None, UNSET)),
        st.builds(
            v2.ToolCallContentChunk,
            tool_call_id=IDS,
            content=blocks(v2).map(lambda block: v2.Content(content=block)),
        ),
        st.builds(
            v2.TerminalUpdate,
            terminal_id=IDS,
            command=some(TEXT, None, UNSET),
            output=some(DATA.map(lambda data: v2.TerminalOutput(data=data)), None, UNSET),
            exit_status=some(st.just(v2.TerminalExitStatus()), None, UNSET),
        ),
        st.builds(v2.TerminalOutputChunk, terminal_id=IDS, data=DATA),
        st.sampled_from([v2.RunningStateUpdate(), v2.IdleStateUpdate(stop_reason="refusal")]),
    ),
    max_size=25,
)


class RecordingTranscript(Transcript):
    """A transcript that keeps its events."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Any] = []

    def apply(self, event: Any) -> None:
        self.recorded.append(event)
        super().apply(event)


class Recorder:
    """An event stream that keeps its events."""

    def __init__(self, updates: list[Any], read: Any) -> None:
        self.stream = SessionEventStream("s", read)
        self.transcript = self.stream.transcript = RecordingTranscript()
        for update in updates:
            self.stream.receive(update)
        self.events = self.transcript.recorded


@pytest.mark.parametrize(("read", "updates"), [(read_v1, V1), (read_v2, V2)], ids=["v1", "v2"])
def test_replayed_transcript_is_the_same_transcript(read: Any, updates: Any) -> None:
    @given(updates)
    def check(these: list[Any]) -> None:
        recorded = Recorder(these, read)
        assert Transcript.from_events(recorded.events) == recorded.transcript
        assert Transcript.from_events(recorded.transcript.events()) == recorded.transcript
        parts = sum(
            max(len(e.content), 1) if isinstance(e, MessageReplaced) else 1 for e in recorded.events
        )
        assert len(list(recorded.transcript.events())) <= parts

    check()


@pytest.mark.parametrize(
    ("union", "readers"),
    [(v1.SessionUpdate, READERS_V1), (v2.SessionUpdate, READERS_V2)],
    ids=["v1", "v2"],
)
def test_every_update_of_the_protocol_has_an_event(union: Any, readers: Any) -> None:
    updates = set(members(union))
    assert len(updates) > 18
    assert updates <= set(readers)


def members(union: Any) -> Iterator[Any]:
    """Yield the classes of a union of a version, without annotations."""
    marks = getattr(union, "__metadata__", ())
    if marks and isinstance(marks[0], Members):
        union, marks = marks[0].union, ()
    parts = get_args(union)
    if not parts:
        yield union
    for part in parts[:1] if marks else parts:
        yield from members(part)


def fold(read: Any, *updates: Any) -> Transcript:
    return Recorder(list(updates), read).transcript


@requirement("R-TOOL-06", "R-TOOL-14")
def test_null_keeps_the_fields_of_a_tool_call_in_v1() -> None:
    call = v1.ToolCall(tool_call_id="c", title="Edit", kind="edit", name="edit_file")
    transcript = fold(
        read_v1,
        call,
        v1.ToolCallUpdate(tool_call_id="c", title=None, name=None, content=[], status="failed"),
    )
    assert transcript.tool_calls == [
        ToolCall(id="c", title="Edit", kind="edit", name="edit_file", status="failed")
    ]


@requirement("R-TOOL-07", "R-TOOL-08", "R-TOOL-15")
def test_null_clears_the_fields_of_a_tool_call_in_v2() -> None:
    known = v2.ToolCallUpdate(
        tool_call_id="c", title="Edit", kind="edit", name="edit_file", status="completed"
    )
    cleared = v2.ToolCallUpdate(tool_call_id="c", title=None, kind=None, name=None, status=None)
    assert fold(read_v2, known, cleared).tool_calls == [ToolCall(id="c")]


@requirement("R-TOOL-10")
def test_content_chunks_are_appended_to_a_v2_tool_call() -> None:
    def content(text: str) -> v2.Content:
        return v2.Content(content=v2.TextContent(text=text))

    def chunk(text: str) -> v2.ToolCallContentChunk:
        return v2.ToolCallContentChunk(tool_call_id="c", content=content(text))

    whole = v2.ToolCallUpdate(tool_call_id="c", content=[content("B")])
    (call,) = fold(read_v2, chunk("A"), whole, chunk("C")).tool_calls
    assert call.content == ("B", "C")


def chunk_of_terminal(data: str) -> v2.TerminalOutputChunk:
    return v2.TerminalOutputChunk(terminal_id="t", data=data)


@requirement("R-DTERM-05")
def test_terminal_output_is_replaced_by_a_snapshot() -> None:
    snapshot = v2.TerminalUpdate(terminal_id="t", output=v2.TerminalOutput(data="eD0="))
    transcript = fold(read_v2, chunk_of_terminal("b2xk"), snapshot)
    assert transcript.terminals["t"].text == "x="


@requirement("R-DTERM-06", "R-DTERM-07")
def test_terminal_chunks_are_decoded_individually_and_characters_across_them() -> None:
    # Each chunk has its own padding; the sign is split between two of them.
    transcript = fold(read_v2, *map(chunk_of_terminal, ("eD0=", "4pw=", "kw==", "/w==", "eQ==")))
    assert transcript.terminals["t"].text == "x=✓\N{REPLACEMENT CHARACTER}y"


@requirement("R-DTERM-03")
def test_terminal_update_changes_only_the_fields_that_it_has() -> None:
    update = v2.TerminalUpdate
    transcript = fold(
        read_v2,
        update(terminal_id="t", command="make", cwd="/project"),
        update(terminal_id="t", cwd=None),
        chunk_of_terminal("eA=="),
    )
    terminal = transcript.terminals["t"]
    assert (terminal.terminal.command, terminal.terminal.cwd, terminal.text) == ("make", None, "x")


@requirement("R-DTERM-08")
def test_terminal_with_an_exit_status_has_exited_without_code_and_signal() -> None:
    transcript = fold(
        read_v2,
        chunk_of_terminal("eA=="),
        v2.TerminalUpdate(terminal_id="t", exit_status=v2.TerminalExitStatus()),
    )
    assert transcript.terminals["t"].terminal.exited


@requirement("R-PLAN-03")
def test_plan_of_v1_replaces_the_previous_plan() -> None:
    def plan(*steps: str) -> v1.Plan:
        entries = [v1.PlanEntry(content=s, priority="low", status="pending") for s in steps]
        return v1.Plan(entries=entries)

    transcript = fold(read_v1, plan("a", "b"), plan("c"))
    assert transcript.plan is not None
    assert [entry.content for entry in transcript.plan.entries] == ["c"]


@requirement("R-PLAN-06")
def test_plans_of_v2_are_kept_by_id() -> None:
    def plan(plan_id: str, step: str) -> v2.PlanUpdate:
        entry = v2.PlanEntry(content=step, priority="low", status="pending")
        return v2.PlanUpdate(plan=v2.PlanItems(plan_id=plan_id, entries=[entry]))

    transcript = fold(read_v2, plan("p", "a"), plan("q", "b"), plan("p", "c"))
    assert [(k, p.entries[0].content) for k, p in transcript.plans.items()] == [
        ("p", "c"),
        ("q", "b"),
    ]


@requirement("R-LIST-15")
@pytest.mark.parametrize(("read", "types"), [(read_v1, v1), (read_v2, v2)], ids=["v1", "v2"])
def test_title_is_kept_when_absent_and_cleared_by_null(read: Any, types: Any) -> None:
    named = types.SessionInfoUpdate(title="T")
    assert fold(read, named, types.SessionInfoUpdate(updated_at="2026-01-01")).title == "T"
    assert fold(read, named, types.SessionInfoUpdate(title=None)).title is None


@requirement("R-USAGE-05")
def test_cost_is_kept_when_absent_and_cleared_by_null_in_v2() -> None:
    cost = v2.Cost(amount=1.5, currency="EUR")
    first = v2.UsageUpdate(used=1, size=9, cost=cost)
    kept = fold(read_v2, first, v2.UsageUpdate(used=2, size=9)).usage
    assert kept is not None
    assert kept.cost is not None
    cleared = fold(read_v2, first, v2.UsageUpdate(used=2, size=9, cost=None)).usage
    assert cleared is not None
    assert cleared.cost is None


@requirement("R-MSG-03", "R-MSG-11")
def test_messages_with_ids_can_interleave() -> None:
    transcript = Transcript.from_events(
        [Text("a", "1"), Text("b", "2"), Text("c", "1"), UserText("d", "1"), Text("e")]
    )
    assert [(m.role, m.id, m.text) for m in transcript.messages] == [
        ("agent", "1", "ac"),
        ("agent", "2", "b"),
        ("user", "1", "d"),
        ("agent", None, "e"),
    ]


def test_messages_without_ids_end_at_any_other_update() -> None:
    transcript = Transcript.from_events([Text("a"), Text("b"), ToolCall(id="t"), Text("c")])
    assert [m.text for m in transcript.messages] == ["ab", "c"]
    assert transcript.text == "ab\n\nc"


def test_content_chunks_are_between_texts() -> None:
    link = v1.ResourceLink(uri="file:///x", name="x")
    chunk = v1.AgentMessageChunk
    said = [v1.TextContent(text="see "), link, v1.TextContent(text="!")]
    (message,) = fold(read_v1, *(chunk(content=c) for c in said)).messages
    assert message.text == "see \n[x](file:///x)\n!"
    assert len(message.content) == 3


def test_long_message_is_accumulated() -> None:
    transcript = Transcript.from_events(Text(str(n % 10)) for n in range(5000))
    assert transcript.text == "0123456789" * 500


def test_mode_is_the_value_of_its_option() -> None:
    option = SelectOption(id="m", name="Mode", value="ask", choices=(), category="mode")
    transcript = Transcript.from_events([OptionsChanged((option,)), ModeChanged("code")])
    assert transcript.mode == "code"
    assert transcript.options[0].value == "code"


@requirement("R-PLAN-13")
def test_plan_of_an_unknown_type_replaces_the_previous_one() -> None:
    from accord.wire.base import Unknown

    update = v2.PlanUpdate(plan=Unknown("_tree", {"type": "_tree", "planId": "p"}))
    items = v2.PlanItems(
        plan_id="p", entries=[v2.PlanEntry(content="a", priority="low", status="pending")]
    )
    assert fold(read_v2, v2.PlanUpdate(plan=items), update).plans == {"p": Plan(id="p")}


def test_image_arrives_as_a_content_chunk() -> None:
    events = Recorder(
        [v2.AgentMessageChunk(message_id="1", content=v2.ImageContent(**PICTURE))], read_v2
    ).events
    (event,) = events
    assert isinstance(event, ContentChunk)
    assert event.role == "agent"


def test_idle_state_has_the_token_usage() -> None:
    usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
    state = fold(read_v2, v2.IdleStateUpdate(stop_reason="end_turn", usage=usage)).state
    assert state is not None
    assert state.token_usage == TokenUsage(total=3, input=1, output=2)


def test_garbage_collector_tracks_nothing_of_a_long_conversation() -> None:
    """What it tracks makes each full collection longer, which stops all other sessions."""
    gc.freeze()  # what other tests have left need not be searched
    transcript = Transcript()

    def converse(numbers: range) -> int:
        for number in numbers:
            transcript.apply(UserText("do it", f"u{number}"))
            transcript.apply(Text("first ", f"m{number}"))
            transcript.apply(Text("second", f"m{number}"))
            append_texts(transcript, f"n{number}", ["third ", "fourth"])
            transcript.apply(ToolCall(id=f"t{number}", title="Read", status="completed"))
        gc.collect()
        return len(gc.get_objects())

    before = converse(range(10))
    assert converse(range(10, 1000)) - before < 100
    assert transcript.text.endswith("first second\n\nthird fourth")
