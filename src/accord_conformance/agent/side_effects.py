"""What shows that something was done for which the user was asked.

A status alone shows little: some agents end a rejected call as `completed`, with a word that it
was declined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import Json, ScenarioClient, SentPrompt
from accord_conformance.traffic.message import Notification, Request

__all__ = ("SideEffectSign", "side_effects", "tool_of")

_MAX_FILES = 10_000


class SideEffectSign(NamedTuple):
    """Something that shows that a tool call was worked on."""

    description: str
    evidence: tuple[Request | Notification, ...]


def side_effects(
    editor: ScenarioClient, prompted: SentPrompt, answered: list[Request]
) -> Iterator[SideEffectSign]:
    """Yield what was done of that for which permission was asked, once that was answered.

    The editor's folder is the turn's own, and was empty before.
    """
    told = {call.frame.number: _told(editor, prompted, call) for call in answered}
    asked = "".join(told.values()) + _text(prompted.request)
    for path in sorted(islice(editor.folder.rglob("*"), _MAX_FILES)):
        if _names(asked, path.name) and not path.is_dir():
            yield SideEffectSign(f"{path.name} is there", ())
    for call in answered:
        for used in _later(editor, prompted, call):
            if what := _named(used, told[call.frame.number]):
                yield SideEffectSign(f"{used.method} for {what}", (call, used))


def tool_of(call: Request) -> Json:
    """Return the tool call that a permission request is about, or an empty object."""
    params = call.params if is_object(call.params) else {}
    subject = params.get("subject")
    tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
    return tool if is_object(tool) else {}


def _told(editor: ScenarioClient, prompted: SentPrompt, call: Request) -> str:
    """Return all that was said of what the user was asked for."""
    session = editor.connection.observer.state.find_session(prompted.session)
    tool = session.tools.get(str(tool_of(call).get("toolCallId"))) if session else None
    return _text(call) + "\n".join(_strings(tool.fields if tool else None))


def _text(call: Request) -> str:
    return "\n".join(_strings(call.params)) + "\n"


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in some JSON."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from _strings(inner)
    elif is_array(value):
        for inner in value:
            yield from _strings(inner)


def _names(text: str, name: str) -> bool:
    """Tell whether a text has the name of a file, and not as a part of another word."""
    return bool(name) and bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text))


def _later(editor: ScenarioClient, prompted: SentPrompt, answered: Request) -> list[Request]:
    """Return what the agent asked of the client in this session after an answer."""
    if answered.response is None:
        return []
    return [
        call
        for call in editor.connection.requests
        if call.session_id == prompted.session
        and call.frame.number > answered.response.frame.number
        and is_object(call.params)
    ]


def _named(used: Request, told: str) -> str:
    """Return what a request is for when that is what the user was asked."""
    match used.method:
        case "fs/write_text_file":
            name = Path(str(used.params.get("path"))).name
            return name if _names(told, name) else ""
        case "terminal/create":
            args = used.params.get("args")
            words = [str(word) for word in args] if is_array(args) else []
            # One word may be the name of a file that is looked at.
            whole = " ".join([str(used.params.get("command")), *words])
            for line in (whole, " ".join(words)):
                if " " in line and line in told:
                    return f"`{line}`"
            return ""
        case _:
            return ""
