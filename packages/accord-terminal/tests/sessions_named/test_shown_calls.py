"""How `accord session` shows tool calls that their turn has left open."""

from __future__ import annotations

import io
import json
from typing import Any

from msgspec import Raw

from accord_terminal.sessions.cli.transfer import exported
from accord_terminal.sessions.cli.watch import JournalText
from accord_terminal.sessions.journal import Ended, Entry, Started, Updated
from accord_terminal.sessions.records import Record

WORDS = "not finished by the agent"


def changed(**update: Any) -> Updated:
    return Updated(update=Raw(json.dumps({"toolCallId": "a", **update}).encode()))


def turn(number: int, *updates: Entry) -> list[Entry]:
    prompt = f"p{number}"
    content = Raw(b'[{"type": "text", "text": "Do it"}]')
    started = Started(prompt=prompt, by="me", content=content)
    return [started, *updates, Ended(prompt=prompt, stop_reason="end_turn")]


ENTRIES = [
    *turn(1, changed(sessionUpdate="tool_call", title="Edit a.txt", status="pending")),
    *turn(2, changed(sessionUpdate="tool_call_update", status="completed")),
]


def test_v1_call_that_is_left_open_is_shown_and_a_late_end_counts() -> None:
    out = io.StringIO()
    text = JournalText(1, out)
    for entry in ENTRIES:
        text.show(entry)
    calls = [line for line in out.getvalue().splitlines() if line.startswith("- ")]
    assert calls == [f"- Edit a.txt [{status}]" for status in ("pending", WORDS, "completed")]


def test_skipped_turn_leaves_its_calls_as_well() -> None:
    out = io.StringIO()
    text = JournalText(1, out)
    for entry in ENTRIES[:3]:
        text.skip(entry)
    for entry in turn(2, changed(sessionUpdate="tool_call_update", title="Edit b.txt")):
        text.show(entry)
    assert out.getvalue().splitlines()[1:3] == [
        "- Edit b.txt [pending]",
        f"- Edit b.txt [{WORDS}]",
    ]


def test_exports_say_that_a_v1_call_was_left_open() -> None:
    record = Record(
        id="1", agent="a", argv=("a",), cwd="/", created_at="now", used_at="now", protocol=1
    )
    for form in ("markdown", "html"):
        page = exported(record, ENTRIES[:3], form).decode()
        assert page.count(WORDS) == 1
        assert WORDS not in exported(record, turn(1, ENTRIES[4]), form).decode()
