"""Values of a conversation as JSON for a page: bounded, with hidden characters made visible."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from accord.client.events import AgentTerminal, Plan, StateChanged, ToolCall
from accord.client.transcript import TerminalTranscript
from accord.errors import RequestError
from accord.text import lenient_json
from accord.text.excerpt import one_line, visible
from accord.text.markdown_html import html_of
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
)
from accord.types.diffs import diff_lines
from accord.types.session import BooleanOption, SessionOption, TokenUsage
from accord.types.tool_calls import Diff, TerminalView, ToolContent

MAX_CHARS = 20_000  # of a text in a card; the message view has all of it
MAX_ROWS = 500  # of a diff
MAX_PARTS = 50  # of the content of a tool call
MAX_OUTPUT_BYTES = 64 * 1024  # at the end of a terminal's output
MAX_IMAGE_BYTES = 4 * 1024 * 1024
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*[mK]")  # escape sequences for colours and line ends


def bounded(text: str, limit: int = MAX_CHARS) -> dict[str, Any]:
    """Return a text of several lines, and the number of characters that are left out."""
    left = max(len(text) - limit, 0)
    return {"text": visible(text[:limit].replace("\r\n", "\n")), "left": left}


def value_text(value: Any) -> dict[str, Any]:
    """Return a JSON value as indented text."""
    if isinstance(value, str):
        return bounded(value)
    try:
        return bounded(json.dumps(value, indent=2, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return bounded(lenient_json.dumps(value).decode("utf-8", "replace"))


def contents_json(contents: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """Return content blocks; text is Markdown."""
    return [_content(content) for content in contents]


def _content(content: ToolContent) -> dict[str, Any]:
    match content:
        case str():
            left = max(len(content) - MAX_CHARS, 0)
            return {"type": "text", "html": html_of(content[:MAX_CHARS]), "left": left}
        case ImageContent(data=data, mime_type=mime) if (
            mime in _IMAGES and len(data) <= MAX_IMAGE_BYTES
        ):
            source = f"data:{mime};base64,{base64.b64encode(data).decode()}"
            return {"type": "image", "mime": mime, "source": source, "bytes": len(data)}
        case ImageContent(data=data, mime_type=mime) | AudioContent(data=data, mime_type=mime):
            kind = "image" if isinstance(content, ImageContent) else "audio"
            return {"type": kind, "mime": one_line(mime, 100), "bytes": len(data)}
        case ResourceLink():
            return {
                "type": "link",
                "name": one_line(content.title or content.name, 200),
                "uri": one_line(content.uri),
                "description": one_line(content.description or ""),
                "mime": one_line(content.mime_type or "", 100),
                "bytes": content.size,
            }
        case EmbeddedResource(content=inner):
            shown = bounded(inner) if isinstance(inner, str) else {"bytes": len(inner)}
            mime = one_line(content.mime_type or "", 100)
            return {"type": "resource", "uri": one_line(content.uri), "mime": mime, **shown}
        case Diff():
            return _diff(content)
        case TerminalView(terminal_id=terminal_id):
            return {"type": "terminal", "id": terminal_id}
        case Other(raw=raw):
            return {"type": "other", **value_text(raw)}


def _diff(diff: Diff) -> dict[str, Any]:
    rows: list[list[Any]] = []
    added = removed = total = 0
    for line in diff_lines(diff):
        total += 1
        added += line.sign == "+"
        removed += line.sign == "-"
        if len(rows) < MAX_ROWS:
            rows.append([line.sign, line.old, line.new, visible(line.text[:MAX_CHARS])])
    change = "changed"
    if diff.patch is None:
        change = "new" if diff.old is None else "deleted" if diff.new is None else change
    return {
        "type": "diff",
        "path": one_line(diff.path),
        "others": [one_line(path) for path in diff.others],
        "change": change,
        "added": added,
        "removed": removed,
        "rows": rows,
        "left": total - len(rows),
    }


def tool_call_json(call: ToolCall) -> dict[str, Any]:
    """Return a tool call in its current state."""
    parts: Sequence[ToolContent] = call.content[:MAX_PARTS]
    return {
        "callId": call.id,
        "title": one_line(call.title, 500),
        "toolKind": one_line(call.kind, 60),
        "status": one_line(call.shown_status, 60),
        "name": None if call.name is None else one_line(call.name, 200),
        "content": [_content(part) for part in parts],
        "left": len(call.content) - len(parts),
        "locations": [
            {"path": one_line(place.path), "line": place.line} for place in call.locations[:100]
        ],
        "input": None if call.raw_input is None else value_text(call.raw_input),
        "output": None if call.raw_output is None else value_text(call.raw_output),
        "cancellable": call.cancellable and call.is_open,
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan with the states of its entries."""
    return {
        "entries": [
            {
                "text": one_line(entry.content),
                "status": one_line(entry.status, 60),
                "priority": one_line(entry.priority, 60),
            }
            for entry in plan.entries[:1000]
        ],
        "html": None if plan.markdown is None else html_of(plan.markdown[:MAX_CHARS]),
        "uri": None if plan.uri is None else one_line(plan.uri),
        "removed": plan.removed,
    }


def terminal_json(shell: TerminalTranscript) -> dict[str, Any]:
    """Return a terminal with the end of its output, as lines without their overwritten states."""
    terminal: AgentTerminal = shell.terminal
    left = max(len(shell.output) - MAX_OUTPUT_BYTES, 0)
    text = bytes(shell.output[left:]).decode("utf-8", "replace")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _COLOURS.sub("", text).split("\n"))
    return {
        "command": None if terminal.command is None else visible(terminal.command[:MAX_CHARS]),
        "cwd": None if terminal.cwd is None else one_line(terminal.cwd),
        "output": visible("\n".join(lines)),
        "left": left,
        "exited": terminal.exited,
        "exitCode": terminal.exit_code,
        "signal": None if terminal.signal is None else one_line(terminal.signal, 60),
    }


def option_json(option: SessionOption) -> dict[str, Any]:
    """Return a config option with its choices."""
    shared = {
        "id": option.id,
        "name": one_line(option.name, 100),
        "value": option.value,
        "description": one_line(option.description or ""),
        "category": option.category,
    }
    if isinstance(option, BooleanOption):
        return {"type": "switch", **shared}
    choices = [
        {
            "value": choice.value,
            "name": one_line(choice.name, 100),
            "description": one_line(choice.description or ""),
            "group": None if choice.group is None else one_line(choice.group, 100),
        }
        for choice in option.choices
    ]
    return {"type": "select", "choices": choices, **shared}


def state_json(state: StateChanged | None) -> dict[str, Any] | None:
    """Return the state of a session or subagent."""
    if state is None:
        return None
    return {
        "state": one_line(state.state, 60),
        "stopReason": None if state.stop_reason is None else one_line(state.stop_reason, 60),
        "error": None if state.error is None else error_json(state.error),
    }


def error_json(error: RequestError) -> dict[str, Any]:
    """Return an error of the agent."""
    data = None if error.data is None else value_text(error.data)
    return {"code": error.code, **bounded(error.message), "data": data}


def token_usage_json(usage: TokenUsage | None) -> dict[str, Any] | None:
    """Return the tokens of a turn."""
    if usage is None:
        return None
    return {
        "total": usage.total,
        "input": usage.input,
        "output": usage.output,
        "thought": usage.thought,
        "cachedRead": usage.cached_read,
        "cachedWrite": usage.cached_write,
    }
