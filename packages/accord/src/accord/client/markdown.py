"""Transcripts as Markdown, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable

from accord.client.events import UNFINISHED, Compaction, Plan, SessionMessage, ToolCall
from accord.client.message import Message
from accord.text.excerpt import excerpt, one_line

_MAX_THOUGHT_CHARS = 500  # of a thought
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "✗"}
_BOXES = {"completed": "x"}


def markdown_of(items: Iterable[object], plans: Iterable[Plan]) -> str:
    """Return the items of a transcript in order, and then the plans."""
    parts = [part for item in items if (part := _item(item))]
    parts += [_plan(plan) for plan in plans]
    return "\n\n".join(parts)


def _item(item: object) -> str:
    match item:
        case Message(role="agent"):
            return item.text
        case Message(role="user"):
            return _quoted(f"**User:** {item.text}")
        case Message():
            return (
                _quoted(f"*{excerpt(item.text.strip(), _MAX_THOUGHT_CHARS)}*") if item.text else ""
            )
        case ToolCall(title=title, status=status, kind=kind):
            line = one_line(title or kind, 200).replace("`", "'")
            left = f" *({UNFINISHED})*" if item.shown_status == UNFINISHED else ""
            return f"{_MARKS.get(status, '…')} `{line}`{left}"
        case Compaction(status=status):
            return f"*Compaction of the conversation: {one_line(status, 60)}*"
        case SessionMessage(sender=sender, recipient=recipient):
            return f"*Message from `{sender}` to `{recipient}`*"
        case _:
            return ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _plan(plan: Plan) -> str:
    if plan.markdown is not None:
        return plan.markdown
    steps = (
        f"- [{_BOXES.get(entry.status, ' ')}] {one_line(entry.content)}" for entry in plan.entries
    )
    return "\n".join(steps)
