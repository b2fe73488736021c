"""Side effects: evidence that an action was done for which permission was requested.

The status of a tool call is not enough: some agents report a rejected call as `completed`, with a
text that it was declined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.scenario_client import Json, ScenarioClient, SentPrompt
from accord_conformance.traffic.message import Notification, Request

_MAX_FILES = 10_000


class SideEffectSign(NamedTuple):
    """A sign that a tool call was executed."""

    description: str
    evidence: tuple[Request | Notification, ...]


def side_effects(
    client: ScenarioClient, sent: SentPrompt, answered: list[Request]
) -> Iterator[SideEffectSign]:
    """Yield signs that the actions were done for which permission was requested.

    The client's folder belongs to this turn only, and was empty before.
    """
    call_texts = {call.frame.number: _call_text(client, sent, call) for call in answered}
    asked = "".join(call_texts.values()) + _text(sent.request)
    for path in sorted(islice(client.folder.rglob("*"), _MAX_FILES)):
        if _names(asked, path.name) and not path.is_dir():
            yield SideEffectSign(f"a new file {path.name}", ())
    for call in answered:
        for used in _later(client, sent, call):
            if what := _named(used, call_texts[call.frame.number]):
                yield SideEffectSign(f"{used.method} for {what}", (call, used))


def tool_of(call: Request) -> Json:
    """Return the tool call of a permission request, or an empty object."""
    params = call.params if is_object(call.params) else {}
    subject = params.get("subject")
    tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
    return tool if is_object(tool) else {}


def _call_text(client: ScenarioClient, sent: SentPrompt, call: Request) -> str:
    """Return all texts about the action that the user had to permit."""
    session = client.connection.observer.state.find_session(sent.session)
    tool = session.tools.get(str(tool_of(call).get("toolCallId"))) if session else None
    return _text(call) + "\n".join(_strings(tool.fields if tool else None))


def _text(call: Request) -> str:
    return "\n".join(_strings(call.params)) + "\n"


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from _strings(inner)
    elif is_array(value):
        for inner in value:
            yield from _strings(inner)


def _names(text: str, name: str) -> bool:
    """Return whether a text contains the name of a file as a whole word."""
    return bool(name) and bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text))


def _later(client: ScenarioClient, sent: SentPrompt, answered: Request) -> list[Request]:
    """Return the agent's requests in this session after a response."""
    if answered.response is None:
        return []
    return [
        call
        for call in client.connection.requests
        if call.session_id == sent.session
        and call.frame.number > answered.response.frame.number
        and is_object(call.params)
    ]


def _named(used: Request, call_text: str) -> str:
    """Return the target of a request if it is the action that the user had to permit."""
    match used.method:
        case "fs/write_text_file":
            name = Path(str(used.params.get("path"))).name
            return name if _names(call_text, name) else ""
        case "terminal/create":
            args = used.params.get("args")
            words = [str(word) for word in args] if is_array(args) else []
            # A single word may be the name of a file that is only read.
            whole = " ".join([str(used.params.get("command")), *words])
            for line in (whole, " ".join(words)):
                if " " in line and line in call_text:
                    return f"`{line}`"
            return ""
        case _:
            return ""
