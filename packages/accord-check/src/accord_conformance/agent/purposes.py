"""The purposes of prompts: what a turn has to lead to, so that a scenario is exercised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.scenario_client import Json, ScenarioClient, SentPrompt
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

_MAX_FILES = 10_000
_MESSAGES = ("agent_message_chunk", "agent_message")


def missed_purpose(client: ScenarioClient, sent: SentPrompt) -> str:
    """Return what a turn did not lead to, and what it led to instead, or an empty text.

    A prompt that was refused, and one whose turn has not ended, are not judged here.
    """
    check = _PURPOSES.get(sent.purpose)
    if check is None or not sent.request.ok or not sent.is_over or check[1](client, sent):
        return ""
    return f"{check[0]}: {_instead(client, sent)}"


def _instead(client: ScenarioClient, sent: SentPrompt) -> str:
    """Describe the failures in a turn, or how it ended."""
    parts = [
        f"the tool call {format_value(tool.get('title') or ident)} failed"
        for ident, tool in _tool_calls(sent).items()
        if tool.get("status") == "failed"
    ]
    parts += [
        f"{call.method} of the agent got error {call.code}"
        for call in _requests(client, sent)
        if call.code is not None
    ]
    return "; ".join(dict.fromkeys(parts)) or f"the turn ended with {sent.stop_reason}"


def _says(_: ScenarioClient, sent: SentPrompt) -> bool:
    return bool(sent.updates(*_MESSAGES))


def _uses_a_tool(_: ScenarioClient, sent: SentPrompt) -> bool:
    return bool(_tool_calls(sent))


def _asks(client: ScenarioClient, sent: SentPrompt) -> bool:
    return any(one.method == "session/request_permission" for one in _requests(client, sent))


def _writes(client: ScenarioClient, sent: SentPrompt) -> bool:
    served = any(one.method == "fs/write_text_file" and one.ok for one in _requests(client, sent))
    written = (path for path in islice(client.folder.rglob("*"), _MAX_FILES) if path.is_file())
    return served or any(written) or any(_finished_on_a_file(sent))


def _finished_on_a_file(sent: SentPrompt) -> Iterator[bool]:
    """Yield whether each completed tool call names a file that exists, perhaps elsewhere."""
    for tool in _tool_calls(sent).values():
        if tool.get("status") == "completed":
            for path in _paths(tool):
                yield Path(path).is_file()


def _runs(client: ScenarioClient, sent: SentPrompt) -> bool:
    served = any(one.method == "terminal/create" and one.ok for one in _requests(client, sent))
    shown = sent.updates("terminal_update", "terminal_output_chunk")
    tools = _tool_calls(sent).values()
    return served or bool(shown) or any(tool.get("status") == "completed" for tool in tools)


# What a prompt for a purpose leads to, as it is missed. The other purposes are checked by the
# scenarios that have them.
_PURPOSES: dict[str, tuple[str, Callable[[ScenarioClient, SentPrompt], bool]]] = {
    "text": ("the agent sent no message", _says),
    "tool": ("the agent reported no tool call", _uses_a_tool),
    "permission": ("the agent did not request permission", _asks),
    "file_write": ("no file was written", _writes),
    "terminal": ("no command was run", _runs),
}


def _tool_calls(sent: SentPrompt) -> dict[str, Json]:
    """Return the tool calls of a turn by id, with all that was reported of them."""
    found: dict[str, Json] = {}
    for _, update in sent.updates("tool_call", "tool_call_update"):
        found.setdefault(str(update.get("toolCallId")), {}).update(update)
    return found


def _paths(tool: Json) -> Iterator[str]:
    named: list[Any] = []
    for key in ("locations", "content"):
        value = tool.get(key)
        named += value if is_array(value) else []
    for one in named:
        path = one.get("path") if is_object(one) else None
        if isinstance(path, str) and "\0" not in path:
            yield path


def _requests(client: ScenarioClient, sent: SentPrompt) -> list[Request]:
    """Return the agent's requests for the session since the prompt."""
    return [
        call
        for call in client.connection.requests
        if call.session_id == sent.session and call.frame.number > sent.request.frame.number
    ]
