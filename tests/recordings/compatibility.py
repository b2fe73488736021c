"""What the recorded agents and clients did: the data of docs/reference/compatibility.md.

    python tests/recordings/compatibility.py     writes docs/reference/compatibility.json

`make recordings` records the programs again, and then runs this. Each quirk that can be seen in
messages has a detector here; the page names the recordings in which it was seen.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.rules.quirks import QUIRKS
from accord.text.lenient_json import is_object
from accord_trace import Record, open_trace

sys.path.insert(0, str(Path(__file__).parent.parent))

from recordings.agents import AGENTS, NOT_STARTED
from recordings.fake_model import NO_TOOL, text_of

__all__ = (
    "DATA",
    "DETECTORS",
    "answers",
    "by_method",
    "messages",
    "report",
    "turns_of",
    "version_of",
)

HERE = Path(__file__).parent
INTEROP = HERE.parent / "interop"
DATA = HERE.parent.parent / "docs" / "reference" / "compatibility.json"
# By task: the request that an agent makes if the client does the task.
SERVED = {"file": "fs/write_text_file", "command": "terminal/create"}
V1_UPDATES = frozenset(
    (
        "agent_message_chunk",
        "agent_thought_chunk",
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "plan",
        "session_info_update",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "user_message_chunk",
    )
)


@dataclass
class Message:
    """A message of a recording; a response has the method and the params of its request."""

    kind: str
    method: str
    by_agent: bool
    value: dict[str, Any]
    is_error: bool
    is_null: bool
    request: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def update(self) -> dict[str, Any]:
        found = self.value.get("update")
        return found if is_object(found) else {}

    @property
    def kind_of_update(self) -> str:
        return str(self.update.get("sessionUpdate", ""))


def messages(path: Path) -> list[Message]:
    """Return the messages of a recording."""
    open_requests: dict[tuple[str, str], Message] = {}
    found: list[Message] = []
    for record in open_trace(path):
        if record.type not in ("request", "response", "notification", "invalid"):
            continue
        by_agent = record.dir == "to_client"
        message = _message(record, by_agent)
        if record.type == "request":
            open_requests[record.dir, record.id_text] = message
        elif record.type == "response":
            other = "to_agent" if by_agent else "to_client"
            request = open_requests.pop((other, record.id_text), None)
            if request is not None:
                message.method, message.request = request.method, request.value
        found.append(message)
    return found


def _message(record: Record, by_agent: bool) -> Message:
    value = record.value()
    return Message(
        record.type,
        record.method if isinstance(record.method, str) else "",
        by_agent,
        value if is_object(value) else {},
        record.is_error,
        record.type == "response" and value is None,
    )


def answers(given: list[Message], *methods: str) -> Iterator[Message]:
    """Yield the responses to some methods."""
    return (one for one in given if one.kind == "response" and one.method in methods)


def by_method(given: list[Message], method: str) -> Iterator[Message]:
    """Yield the requests and notifications of a method."""
    return (one for one in given if one.method == method and one.kind != "response")


def version_of(given: list[Message]) -> int:
    """Return the version of the protocol that was agreed on."""
    answer = next(answers(given, "initialize"), None)
    return answer.value.get("protocolVersion", 1) if answer and not answer.is_error else 1


def false_v2(given: list[Message]) -> bool:
    return any(
        one.value.get("protocolVersion") == 2 and "info" not in one.value and not one.is_error
        for one in answers(given, "initialize")
    )


def refused(code: int) -> Callable[[list[Message]], bool]:
    def found(given: list[Message]) -> bool:
        errors = (one for one in answers(given, "initialize") if one.is_error)
        return any(one.value.get("code") == code for one in errors)

    return found


def early_method(given: list[Message]) -> bool:
    return any(one.method in QUIRKS["early-methods"].methods for one in given)


SETUP = ("session/new", "session/load", "session/resume", "session/fork")


def models(given: list[Message]) -> bool:
    return any("models" in one.value for one in answers(given, *SETUP))


def mode_without_category(given: list[Message]) -> bool:
    return any(
        option.get("id") == "mode" and "category" not in option
        for one in answers(given, *SETUP)
        if "modes" in one.value
        for option in one.value.get("configOptions") or ()
    )


def mode_key(given: list[Message]) -> bool:
    return any("mode" in one.value for one in by_method(given, "session/set_mode"))


def current_mode_key(given: list[Message]) -> bool:
    return any(
        one.kind_of_update == "current_mode_update" and "modeId" in one.update for one in given
    )


def mcp_shapes(given: list[Message]) -> bool:
    return any(
        not isinstance(server.get("env", server.get("headers")), list)
        for one in given
        if one.method in SETUP and one.kind == "request"
        for server in one.value.get("mcpServers") or ()
    )


def null_result(given: list[Message]) -> bool:
    return any(one.is_null and not one.is_error and one.method for one in given)


def early_updates(given: list[Message]) -> bool:
    known: set[object] = set()
    for one in given:
        if one.kind == "response" and one.method in SETUP:
            known.add(one.value.get("sessionId", one.request.get("sessionId")))
        elif one.method in SETUP:
            known.add(one.value.get("sessionId"))
        elif one.method == "session/update" and one.value.get("sessionId") not in known:
            return True
    return False


def echoed(given: list[Message]) -> bool:
    is_v1 = version_of(given) == 1
    return is_v1 and any(one.kind_of_update == "user_message_chunk" for one in given)


def unannounced(given: list[Message]) -> bool:
    known: set[object] = set()
    for one in given:
        if one.kind_of_update == "tool_call":
            known.add(one.update.get("toolCallId"))
        elif one.kind_of_update == "tool_call_update" and version_of(given) == 1:
            if one.update.get("toolCallId") not in known:
                return True
        elif one.method == "session/request_permission" and one.kind == "request":
            call = one.value.get("toolCall")
            if is_object(call) and version_of(given) == 1 and call.get("toolCallId") not in known:
                return True
    return False


def error_after_cancel(given: list[Message]) -> bool:
    is_cancelled = False
    for one in given:
        is_cancelled = is_cancelled or one.method == "session/cancel"
        if is_cancelled and one.kind == "response" and one.method == "session/prompt":
            return one.is_error
    return False


def idle_without_reason(given: list[Message]) -> bool:
    # The first idle state of a session ends no work.
    ran = False
    for one in given:
        if one.kind_of_update == "state_update":
            if one.update.get("state") == "idle" and ran and "stopReason" not in one.update:
                return True
            ran = ran or one.update.get("state") == "running"
    return False


def unknown_update(given: list[Message]) -> bool:
    return version_of(given) == 1 and any(
        one.kind_of_update and one.kind_of_update not in V1_UPDATES for one in given
    )


def shell_line(given: list[Message]) -> bool:
    return any(
        " " in str(one.value.get("command", "")) and not one.value.get("args")
        for one in by_method(given, "terminal/create")
    )


def noise(given: list[Message]) -> bool:
    return any(one.kind == "invalid" and one.by_agent for one in given)


DETECTORS: dict[str, Callable[[list[Message]], bool]] = {
    "false-v2": false_v2,
    "v2-refused-as-invalid": refused(-32602),
    "version-refused-code": refused(-32001),
    "early-methods": early_method,
    "set-model": models,
    "mode-without-category": mode_without_category,
    "mode-key": mode_key,
    "current-mode-key": current_mode_key,
    "mcp-server-shapes": mcp_shapes,
    "null-result": null_result,
    "updates-before-session": early_updates,
    "prompt-echoed": echoed,
    "unannounced-tool-call": unannounced,
    "error-after-cancel": error_after_cancel,
    "idle-without-reason": idle_without_reason,
    "unknown-updates": unknown_update,
    "shell-line": shell_line,
    "noise-on-stdout": noise,
}


def report() -> dict[str, Any]:
    """Return what each recorded program did, and the quirks that were seen."""
    return {
        "agents": [_agent(path) for path in sorted(HERE.glob("*.acp.jsonl"))],
        "failures": json.loads((HERE / "failures.json").read_text("utf-8")),
        "not_started": [one._asdict() for one in NOT_STARTED],
        "clients": [_client(path) for path in sorted(HERE.glob("clients/*.acp.jsonl"))],
    }


def _agent(path: Path) -> dict[str, Any]:
    given = messages(path)
    name, _, setting = path.name.removesuffix(".acp.jsonl").partition(".")
    outcome = outcome_of(path)
    answer = next(answers(given, "initialize")).value
    info = answer.get("agentInfo") or answer.get("info") or {}
    updates = {one.kind_of_update for one in given if one.by_agent}
    requests = {one.method for one in given if one.by_agent and one.kind == "request"}
    known = next((one.program for one in AGENTS if one.name == name), None)
    program, version = (
        _sdk(path)
        or known
        or (str(info.get("title") or info.get("name", "")), str(info.get("version", "")))
    )
    return {
        "recording": path.name,
        "command": f"python tests/recordings/record.py {name} --setting {setting or 'on'}",
        "program": program,
        "version": version,
        "protocol": version_of(given),
        "offered": offered_to(given),
        "file": task_of(given, outcome, "file"),
        "shell_command": task_of(given, outcome, "command"),
        "text": bool(updates & {"agent_message_chunk", "agent_message"}),
        "tool_calls": bool(updates & {"tool_call", "tool_call_update"}),
        "permission": "session/request_permission" in requests,
        "diff": _mentions_diff(given),
        "plan": bool(updates & {"plan", "plan_update"}),
        "turns": turns_of(given),
        "cancels": sum(one.method == "session/cancel" for one in given),
        "no_cancel": outcome.get("no_cancel", ""),
        "uses": sorted(requests - {"session/request_permission"}),
        "refused": refused_by_client(given),
        "left_open": left_open(given),
        "quirks": _quirks(given, "agent"),
    }


def outcome_of(path: Path) -> dict[str, Any]:
    """Return what `record.py` found on the disk after the turns."""
    with path.open("rb") as lines:
        return json.loads(next(lines)).get("outcome", {})


def offered_to(given: list[Message]) -> dict[str, bool] | None:
    """Return what the client offered to the agent; None in version 2, which has neither."""
    request = next(by_method(given, "initialize")).value
    if version_of(given) != 1:
        return None
    capabilities = request.get("clientCapabilities") or {}
    files = capabilities.get("fs") or {}
    return {
        "files": bool(files.get("readTextFile") and files.get("writeTextFile")),
        "terminals": bool(capabilities.get("terminal")),
    }


def task_of(given: list[Message], outcome: dict[str, Any], task: str) -> dict[str, str]:
    """Return who did a task, or the reason why it was not done.

    `by` is "client" if the client served the request for it, "agent" if the agent did it without
    the client, "failed", "no tool" if the model found none, or "not asked". Whether it was done is
    what was found on the disk, not what the agent reported.
    """
    if task not in outcome:
        return {"by": "not asked", "reason": ""}
    turn = _turn_of(given, outcome, task)
    if outcome[task]:
        served = any(not one.is_error for one in answers(turn, SERVED[task]))
        return {"by": "client" if served else "agent", "reason": ""}
    said = "".join(text_of(one.update.get("content")) for one in turn if one.update)
    if NO_TOOL in said:
        return {"by": "no tool", "reason": ""}
    return {"by": "failed", "reason": _reason(turn)}


def _turn_of(given: list[Message], outcome: dict[str, Any], task: str) -> list[Message]:
    """Return the messages of the turn of a task: the last ones, before a cancelled turn."""
    starts = [
        at for at, one in enumerate(given) if one.method == "session/prompt" and not one.by_agent
    ]
    starts = [at for at in starts if given[at].kind == "request"]
    if not outcome.get("no_cancel"):
        starts.pop()
    tasks = [name for name in SERVED if name in outcome]
    begin = starts[tasks.index(task) - len(tasks)]
    end = next((at for at in starts if at > begin), len(given))
    return given[begin:end]


def left_open(given: list[Message]) -> list[str]:
    """Return the titles of the tool calls that are open at the end of a turn that was completed.

    Version 2 has work that outlives its turn.
    """
    open_calls: dict[object, str] = {}
    found: list[str] = []
    for one in given if version_of(given) == 1 else ():
        call = one.update if one.kind_of_update in ("tool_call", "tool_call_update") else {}
        if call.get("status") in ("completed", "failed"):
            open_calls.pop(call.get("toolCallId"), None)
        elif one.kind_of_update == "tool_call":
            open_calls[call.get("toolCallId")] = str(call.get("title", ""))
        elif one.method == "session/prompt" and one.kind == "response":
            is_complete = one.value.get("stopReason") == "end_turn"
            found += open_calls.values() if is_complete else ()
            open_calls.clear()
    return found


def refused_by_client(given: list[Message]) -> list[str]:
    """Return the methods that the agent called although the client does not serve them."""
    return sorted(
        {
            one.method
            for one in given
            if one.kind == "response" and not one.by_agent and one.value.get("code") == -32601
        }
        - {""}
    )


def _reason(turn: list[Message]) -> str:
    """Return what the agent wrote about the failure, in one line."""
    for one in reversed(turn):
        if one.kind == "response" and one.method == "session/prompt" and one.is_error:
            return str(one.value.get("message", ""))
        if one.update.get("status") == "failed":
            return " ".join(text_of(one.update.get("content")).split())[:120]
    return ""


def _client(path: Path) -> dict[str, Any]:
    given = messages(path)
    request = next(by_method(given, "initialize")).value
    info = request.get("clientInfo") or request.get("info") or {}
    served = {one.method for one in given if not one.by_agent and one.kind == "response"}
    program, version = _sdk(path) or (str(info.get("name", "")), str(info.get("version", "")))
    return {
        "recording": f"clients/{path.name}",
        "program": program,
        "version": version,
        "protocol": version_of(given),
        "turns": turns_of(given),
        "serves": sorted(served),
        "quirks": _quirks(given, "client"),
    }


def _sdk(path: Path) -> tuple[str, str] | None:
    """Return the SDK of a test program, with its version in tests/interop; None for others."""
    name = path.name.partition(".acp.")[0].removesuffix("-v2")
    if name == "acp-http-client":
        packages = json.loads((INTEROP / "real" / "package.json").read_text("utf-8"))
        return name, packages["dependencies"][name]
    if name.startswith("typescript-sdk"):
        packages = json.loads((INTEROP / "package.json").read_text("utf-8"))
        return "TypeScript SDK", packages["dependencies"]["@agentclientprotocol/sdk"]
    if name.startswith("python"):
        pattern = rf"agent-client-protocol(?:\[http\])?==({'0' if '0.12' in name else '1'}[\w.]+)"
        pinned = re.search(pattern, (INTEROP / "install.sh").read_text("utf-8"))
        assert pinned is not None
        return "Python SDK", pinned[1]
    return None


def turns_of(given: list[Message]) -> list[str]:
    """Return how the turns ended."""
    ended: list[str] = []
    for one in given:
        if one.kind == "response" and one.method == "session/prompt":
            if one.is_error:
                ended.append(f"error {one.value.get('code')}")
            elif "stopReason" in one.value:
                ended.append(str(one.value["stopReason"]))
        elif one.kind_of_update == "state_update" and "stopReason" in one.update:
            ended.append(str(one.update["stopReason"]))
    return ended


def _mentions_diff(given: list[Message]) -> bool:
    texts = (json.dumps(one.value) for one in given if one.by_agent)
    return any('"type": "diff"' in text or '"oldText"' in text for text in texts)


def _quirks(given: list[Message], side: str) -> list[str]:
    return [
        name
        for name, found in DETECTORS.items()
        if QUIRKS[name].by in (side, "both") and found(given)
    ]


if __name__ == "__main__":
    DATA.write_text(json.dumps(report(), indent=2, ensure_ascii=False) + "\n", "utf-8")
