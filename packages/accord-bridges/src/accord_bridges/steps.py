"""A turn as steps: what the agent said, and the tools that it called then.

Evaluators count messages of a model, each with its tool calls; ACP has one stream of updates. A
step ends when one of its tool calls has ended or asks for permission, and when the agent says
something after a call.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any, cast

import accord
from accord import ContentChunk, Diff, MessageReplaced, TextContent, ToolCall

__all__ = ("Step", "Steps", "arguments_of", "function_of", "output_of")


class Step:
    """One message of the agent: `thought`, `text`, and `calls` in their current state by id."""

    def __init__(self) -> None:
        self.thought = ""
        self.text = ""
        self.calls: dict[str, ToolCall] = {}
        self.is_closed = False

    @property
    def is_empty(self) -> bool:
        return not (self.thought or self.text or self.calls)


class Steps:
    """Divides the events of a turn into `steps`."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._step_of: dict[str, Step] = {}

    def add(self, event: object) -> None:
        """Add an event of a turn; events that are no part of a message are ignored."""
        match event:
            case accord.Text(text=text):
                self._said().text += text
            case accord.Thought(text=text):
                self._said().thought += text
            case ContentChunk(role="agent", content=content):
                self._said().text += shown(content)
            case MessageReplaced(role="agent", content=contents):
                step = self._said()
                step.text = "".join(map(shown, contents))
            case ToolCall(id=call_id):
                step = self._step_of.get(call_id)
                if step is None:
                    step = self._step_of[call_id] = self._open()
                step.calls[call_id] = event
                if event.is_final:
                    step.is_closed = True
            case _:
                pass

    def close(self, call_id: str) -> None:
        """End the step of a call: it asks for permission, so its arguments are known."""
        self._step_of[call_id].is_closed = True

    def end(self) -> Step:
        """End the turn; return its last step."""
        step = self._open()
        for one in self.steps:
            one.is_closed = True
        return step

    def _open(self) -> Step:
        if not self.steps or self.steps[-1].is_closed:
            self.steps.append(Step())
        return self.steps[-1]

    def _said(self) -> Step:
        step = self._open()
        if step.calls:
            step.is_closed = True
            step = self._open()
        return step


def function_of(call: ToolCall) -> str:
    """Return the name of the tool: as the agent names it, else its kind, else of its title."""
    if call.name:
        return call.name
    if call.kind != "other":
        return call.kind
    return re.sub(r"\W+", "_", call.title.partition("\n")[0])[:40].strip("_") or "tool"


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; if the agent reports none, its title and places."""
    if isinstance(call.raw_input, dict) and call.raw_input:
        return cast("dict[str, Any]", call.raw_input)
    if call.raw_input not in (None, {}):
        return {"input": call.raw_input}
    places = [place.path for place in call.locations]
    return {"title": call.title} | ({"paths": places} if places else {})


def output_of(call: ToolCall) -> str:
    """Return what a call has shown: text, diffs, else its raw output."""
    shown_parts = [part for part in map(shown, call.content) if part]
    if shown_parts:
        return "\n".join(shown_parts)
    raw = call.raw_output
    if raw is None:
        return ""
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)


def shown(part: object) -> str:
    """Return a part of a message or of a tool call as text."""
    match part:
        case str():
            return part
        case TextContent(text=text):
            return text
        case Diff(patch=str(patch)):
            return patch
        case Diff(path=path, old=old, new=new):
            return _unified(path, old or "", new or "")
        case _:
            inner: Any = getattr(part, "content", None)
            if inner is not None:
                return shown(inner)
            kind = getattr(part, "uri", None) or getattr(part, "mime_type", None)
            return f"[{kind or type(part).__name__}]"


def _unified(path: str, old: str, new: str) -> str:
    lines: Iterable[str] = difflib.unified_diff(
        old.splitlines(), new.splitlines(), path, path, lineterm=""
    )
    return "\n".join(lines)
