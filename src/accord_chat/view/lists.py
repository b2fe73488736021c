"""What the lists and texts over the conversation contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.cli.ask.safe_text import one_line, printable
from accord.cli.ask.screen.rows import Row
from accord.cli.ask.screen.tool_rows import plan_rows
from accord.client.agent_adapter import SessionInfo
from accord.client.events import Plan, ToolCall
from accord.client.message import Message
from accord.client.session import SessionView
from accord.types.session import SelectOption
from accord_chat.agent_link import SeenFrame
from accord_chat.live_session import LiveSession
from accord_chat.model.timeline import Entry
from accord_chat.view.keys import COMMANDS, TRANSCRIPT_KEYS, TYPING_KEYS
from accord_chat.view.pick_screen import Choice

__all__ = (
    "entry_title",
    "help_rows",
    "option_choices",
    "session_choices",
    "subagent_choices",
    "traffic_rows",
    "whole_plan_rows",
)

MAX_FRAME_CHARACTERS = 4000  # of a message of the protocol
MAX_LEVELS = 8  # of subagents


def option_choices(session: LiveSession) -> Iterator[Choice[tuple[str, str | bool]]]:
    """Yield every value of every option of a session."""
    for option in session.transcript.options:
        if isinstance(option, SelectOption):
            for choice in option.choices:
                yield Choice(
                    f"{option.name}: {choice.name}",
                    (option.id, choice.value),
                    " · ".join(filter(None, [choice.group, choice.description])),
                    choice.value == option.value,
                )
        else:
            for word, value in (("on", True), ("off", False)):
                label, detail = f"{option.name}: {word}", option.description or ""
                yield Choice(label, (option.id, value), detail, value is option.value)


def session_choices(listed: list[SessionInfo], opened: set[str | None]) -> list[Choice[str]]:
    """Return stored sessions, the latest first; those that are open are marked."""
    latest = sorted(listed, key=lambda info: info.updated_at or "", reverse=True)
    return [
        Choice(
            info.title or info.id,
            info.id,
            (info.updated_at or "").replace("T", " ")[:16],
            info.id in opened,
        )
        for info in latest
    ]


def whole_plan_rows(plans: list[Plan]) -> Iterator[Row]:
    """Yield all steps of all plans."""
    for plan in plans:
        if plan.markdown is not None:
            yield from (Row(line) for line in printable(plan.markdown).split("\n"))
        else:
            yield from plan_rows(plan)


def subagent_choices(session: LiveSession) -> Iterator[Choice[SessionView]]:
    """Yield the subagents of a session as a tree."""
    if session.session is not None:
        yield from _subagents(session.session, 0)


def _subagents(parent: SessionView, level: int) -> Iterator[Choice[SessionView]]:
    for child_id, child in parent.transcript.subagents.items():
        view = parent.subagent(child_id)
        state = "" if child.state is None else str(child.state.state)
        label = f"{'  ' * level}└ {child.title or child_id}"
        yield Choice(label, view, " · ".join(filter(None, [state, child.description])))
        if level < MAX_LEVELS:
            yield from _subagents(view, level + 1)


def traffic_rows(frames: Iterable[SeenFrame]) -> Iterator[Row]:
    """Yield the messages of a connection, one row for each."""
    for frame in frames:
        arrow, style = ("→", "cyan") if frame.direction == "sent" else ("←", "green")
        text = frame.data[: 4 * MAX_FRAME_CHARACTERS].decode("utf-8", "replace").strip()
        shown = one_line(text, MAX_FRAME_CHARACTERS)
        lead = f"{arrow} {frame.time:%H:%M:%S} "
        yield Row(shown, "", lead, lead_style=style, whole_words=False)


def entry_title(entry: Entry) -> str:
    """Return the title of an entry that is shown on its own."""
    match entry.content:
        case ToolCall(title=title):
            return one_line(title, 80)
        case Message(role=role):
            return {"user": "Your prompt", "agent": "Answer", "thought": "Thought"}[role]
        case _:
            return ""


def help_rows() -> Iterator[Row]:
    """Yield all keys."""
    groups = (
        ("While you type", TYPING_KEYS),
        ("Everywhere", tuple((command.shown_key, command.summary) for command in COMMANDS)),
        ("In the conversation (F6)", TRANSCRIPT_KEYS),
    )
    for title, keys in groups:
        yield Row(title, "bold")
        for key, summary in keys:
            yield Row(summary, "", f"  {key:<12}", lead_style="cyan")
        yield Row("")
