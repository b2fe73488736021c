"""A transcript forgets its beginning, and applies later updates as before."""

from __future__ import annotations

from accord import Plan, Text, ToolCall, Transcript
from accord.client.events import AgentTerminal, TerminalOutputChunk, TitleChanged
from accord.client.transcript import forget_items


def transcript_of(count: int) -> Transcript:
    transcript = Transcript.from_events(
        [
            ToolCall(id="open", status="in_progress"),
            ToolCall(id="done", status="completed"),
            Plan(id="p"),
            TitleChanged("A title"),
            AgentTerminal(id="t"),
            TerminalOutputChunk("t", b"output"),
        ]
    )
    for number in range(count):
        transcript.apply(Text(f"text {number}", f"m{number}"))
    return transcript


def test_the_end_the_open_tool_calls_and_the_settings_stay() -> None:
    transcript = transcript_of(10)
    forget_items(transcript, 2)
    assert [message.id for message in transcript.messages] == ["m8", "m9"]
    assert [call.id for call in transcript.tool_calls] == ["open"]
    assert transcript.open_tool_calls == transcript.tool_calls
    assert (transcript.title, transcript.plan) == ("A title", Plan(id="p"))
    assert transcript.terminals["t"].text == ""
    assert transcript.text == "text 8\n\ntext 9"


def test_later_updates_change_what_was_kept() -> None:
    transcript = transcript_of(3)
    forget_items(transcript, 1)
    transcript.apply(Text(", more", "m2"))
    transcript.apply(ToolCall(id="open", status="completed"))
    transcript.apply(Text("new", "m3"))
    assert transcript.text == "text 2, more\n\nnew"
    assert transcript.tool_calls == [ToolCall(id="open", status="completed")]
    assert transcript.open_tool_calls == []


def test_nothing_is_kept_on_request_and_a_forgotten_message_begins_again() -> None:
    transcript = transcript_of(3)
    forget_items(transcript, 0)
    assert transcript.messages == []
    transcript.apply(Text("more", "m2"))
    assert transcript.text == "more"


def test_a_transcript_that_is_short_enough_stays() -> None:
    transcript = transcript_of(3)
    before = [*transcript.items]
    forget_items(transcript, 100)
    assert transcript.items == before
