"""Events as text: `print(event)` shows one short line of what happened."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from accord import (
    AvailableCommand,
    ContextUsage,
    Cost,
    ImageContent,
    InternalError,
    PermissionOption,
    PlanEntry,
    ResourceLink,
    SelectOption,
)
from accord.client import events
from accord.client.events import Event
from accord.text.excerpt import visible
from client.wire_agents import BOTH, Speaker, session_with

SPEED = SelectOption(id="speed", name="Speed", value="fast", choices=())
ALLOW = PermissionOption("y", "Allow once", "allow_once")
CALL = events.ToolCall(id="1", title="Edit a.txt", kind="edit", changed=("title", "status"))
ASKED = events.PermissionRequest(session_id="s", cwd="/", title="Edit a.txt", options=(ALLOW,))
STEPS = PlanEntry("Read", "completed"), PlanEntry("Fix", "in_progress"), PlanEntry("Test")

LINES: list[tuple[Any, str | None]] = [
    (events.Text("Hello\nyou"), r"Text: Hello\nyou"),
    (events.Thought("Hm"), "Thought: Hm"),
    (events.UserText("Fix it"), "User: Fix it"),
    (events.ContentChunk(ImageContent(b"x", "image/png")), "Content (agent): image/png"),
    (events.MessageReplaced("user", "m", ("Fix that",)), "Message replaced (user): Fix that"),
    (events.MessageReplaced("agent", "m", ()), "Message replaced (agent): empty"),
    (CALL, "Tool call: Edit a.txt (edit), pending"),
    (
        msgspec.structs.replace(CALL, changed=("content",), status="in_progress"),
        "Tool call: Edit a.txt (edit), in_progress, content",
    ),
    (
        msgspec.structs.replace(CALL, changed=("unfinished",), unfinished=True),
        "Tool call: Edit a.txt (edit), not finished by the agent",
    ),
    (events.ToolCall(id="1"), "Tool call: 1 (other), pending"),
    (events.Plan(STEPS), "Plan: 1 of 3 done, Fix"),
    (events.Plan(id="p", removed=True), "Plan: removed"),
    (events.Plan(markdown="# Steps"), "Plan: # Steps"),
    (events.CommandsChanged((AvailableCommand("fix", "Fixes"),)), "Commands: /fix"),
    (events.ModeChanged("code"), "Mode: code"),
    (events.OptionsChanged((SPEED,)), "Options: speed=fast"),
    (
        events.UsageChanged(ContextUsage(5, 200, Cost(0.25))),
        "Usage: 5 of 200 tokens, 0.25 USD",
    ),
    (events.TitleChanged("Fix"), "Title: Fix"),
    (events.TitleChanged(None), "Title: removed"),
    (events.UpdatedAtChanged("2026-01-01T00:00:00Z"), "Updated: 2026-01-01T00:00:00Z"),
    (events.Notice("warning", "Low disk", "1 MB left"), "Notice (warning): Low disk, 1 MB left"),
    (events.Compaction(id="c", status="completed", summary=("Short",)), None),
    (events.AgentTerminal(id="t", command="make"), "Terminal: make, running"),
    (
        events.AgentTerminal(id="t", exited=True, exit_code=2),
        "Terminal: t, exit status 2",
    ),
    (events.TerminalOutputChunk("t", b"ok\n\xff"), "Terminal output: 4 bytes, ok\\n\ufffd"),
    (
        events.StateChanged(state="idle", stop_reason="end_turn", background=("t",)),
        "State: idle, end_turn, background: 1",
    ),
    (
        events.StateChanged(state="idle", stop_reason="error", error=InternalError("No luck")),
        None,
    ),
    (
        events.Subagent(id="c", title="Search", state=events.StateChanged(state="running")),
        "Subagent: Search, running",
    ),
    (
        events.SessionMessage(
            id="m", sender="a", recipient="b", content=(ResourceLink("file:///x", "x"),)
        ),
        "Message: from a to b, file:///x",
    ),
    (ASKED, "Permission request: Edit a.txt"),
    (events.PermissionDecided(ASKED, ALLOW), "Permission: Edit a.txt, Allow once"),
    (events.PermissionDecided(ASKED, None), "Permission: Edit a.txt, not answered"),
    (events.UnknownUpdate({"sessionUpdate": "_weather"}), "Unknown update: _weather"),
    (events.UnknownUpdate([1]), "Unknown update: list"),
]
LONG = "\x1b[2J\u202e\u200b\n" * 20_000


def hostile(value: Any) -> Any:
    """Return a value with a long text of hiding characters in every text."""
    match value:
        case str():
            return LONG
        case bytes():
            return LONG.encode()
        case tuple():
            return tuple(map(hostile, value))
        case dict():
            return {key: hostile(each) for key, each in value.items()}
        case msgspec.Struct():
            names = value.__struct_fields__
            return type(value)(**{name: hostile(getattr(value, name)) for name in names})
        case _:
            return value


def test_every_event_has_a_line() -> None:
    classes = {*get_args(Event), events.PermissionRequest}
    assert {type(event) for event, _ in LINES} == classes
    assert all("__str__" in vars(cls) and "__repr__" not in vars(cls) for cls in classes)


@pytest.mark.parametrize(("event", "line"), LINES, ids=lambda one: type(one).__name__)
def test_event_is_one_short_line(event: Any, line: str | None) -> None:
    assert line in (None, str(event))
    assert repr(event).startswith(f"{type(event).__name__}(")
    for shown in (str(event), str(hostile(event))):
        assert 5 < len(shown) <= 120, shown
        assert "\n" not in shown
        assert visible(shown) == shown


@BOTH
async def test_printed_events_of_a_turn_read_as_a_log(version: int) -> None:
    async def work(speaker: Speaker) -> None:
        await speaker.say("Hello")

    async with session_with(version, work) as session, session.prompt("Hi") as turn:
        lines = [str(event) async for event in turn]
    assert [line for line in lines if "running" not in line] == [
        "User: Hi",
        "Text: Hello",
        "State: idle, end_turn",
    ]
