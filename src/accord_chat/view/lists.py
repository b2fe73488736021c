"""What the lists and texts over the conversation contain."""

from __future__ import annotations

from collections.abc import Iterator

from accord.cli.ask.safe_text import one_line, printable
from accord.cli.ask.screen.rows import Row
from accord.cli.ask.screen.tool_rows import plan_rows
from accord.client.agent_adapter import SessionInfo
from accord.client.events import Plan, ToolCall
from accord.client.message import Message
from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_chat.model.timeline import Entry
from accord_chat.view.keys import COMMANDS, TRANSCRIPT_KEYS, TYPING_KEYS
from accord_chat.view.pick_screen import Choice

__all__ = ("entry_title", "help_rows", "option_choices", "session_choices", "whole_plan_rows")


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
