"""Exports a session as Markdown, in parts that can be rendered individually."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from accord import AudioContent, ContentBlock, Diff, EmbeddedResource, ImageContent, ResourceLink
from accord.agent import MessageUpdate, PlanUpdate, ToolCallUpdate, Update

_MAX_LINES = 40  # of the output of a tool
_MARKS = {"completed": "x", "in_progress": "~", "cancelled": "-"}


def markdown_parts(updates: Iterable[Update], title: str) -> list[str]:
    """Return the messages, tool calls and plans of a session as Markdown."""
    parts = [f"# {title}"]
    for update in updates:
        match update:
            case MessageUpdate("user", _, content):
                parts += ["## User", _text(content)]
            case MessageUpdate("agent", _, content):
                parts += ["## Agent", _text(content)]
            case MessageUpdate("thought", _, content):
                parts.append(_quoted(_text(content)))
            case ToolCallUpdate():
                parts.append(_tool(update))
            case PlanUpdate(_, entries):
                lines = (f"- [{_MARKS.get(e.status, ' ')}] {e.content}" for e in entries)
                parts.append("\n".join(lines))
            case _:
                pass
    return [part for part in parts if part]


def _tool(update: ToolCallUpdate) -> str:
    title = "" if update.title is UNSET else " ".join(update.title.split())
    status = "" if update.status is UNSET else update.status
    parts = [f"**{title}** ({status})"]
    for item in () if update.content is UNSET else update.content:
        match item:
            case str():
                parts.append(_fenced(item))
            case Diff() if status != "completed":
                parts.append(f"Not changed: `{item.path}`.")  # proposed, but not done
            case Diff(patch=str() as patch):
                parts.append(_fenced(patch, "diff"))
            case Diff(path=path):
                parts.append(f"Changed `{path}`.")
            case _:
                pass
    return "\n\n".join(parts)


def _text(content: Iterable[ContentBlock]) -> str:
    found: list[str] = []
    for part in content:
        match part:
            case str():
                found.append(part)
            case ResourceLink(uri=uri, name=name):
                found.append(f"[{name}]({uri})")
            case EmbeddedResource(uri=uri):
                found.append(f"[{uri}]({uri})")
            case ImageContent(mime_type=kind) | AudioContent(mime_type=kind):
                found.append(f"({kind})")
            case _:
                pass
    return "\n\n".join(found).strip()


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str, language: str = "") -> str:
    lines = text.rstrip("\n").splitlines()
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} more lines"]
    fence = "```"
    while any(line.lstrip().startswith(fence) for line in lines):
        fence += "`"
    return "\n".join([f"{fence}{language}", *lines, fence])
