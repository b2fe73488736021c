"""The entries and the state of a session as JSON for a page, and what has changed of them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from accord.client.events import Compaction, Notice, SessionMessage, Subagent, UnknownUpdate
from accord.client.transcript import Message
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord.types.steering import outcome_of
from accord_terminal.conversation.session_log import Entry, SessionLog
from accord_terminal.conversation.shown import (
    bounded,
    contents_json,
    error_json,
    option_json,
    plan_json,
    state_json,
    terminal_json,
    token_usage_json,
    tool_call_json,
    value_text,
)

MAX_COMMANDS = 500
MAX_ENTRIES = 100  # in one answer, if everything is sent
MAX_CHANGED = 500


def changes_json(log: SessionLog, *, since: int, epoch: int, first: int) -> dict[str, Any]:
    """Return what changed in a session after the time `since`.

    The page holds the entries from `first` on. At first, and after the session was loaded again
    (then `epoch` differs), the answer has the last entries.
    """
    now = log.clock.now
    changed = list(islice(log.changes_since(since), MAX_CHANGED + 1))
    whole = since < 0 or first < 0 or epoch != log.epoch or len(changed) > MAX_CHANGED
    if whole:
        since, first = -1, max(len(log.entries) - MAX_ENTRIES, 0)
        changed = log.entries[first:]
    changed = sorted((e for e in changed if e.id >= first), key=lambda entry: entry.id)
    answer: dict[str, Any] = {
        "now": now,
        "epoch": log.epoch,
        "whole": whole,
        "first": first,
        "total": len(log.entries),
        "entries": [entry_json(entry, since, now) for entry in changed],
        "terminals": _terminals(log, since),
    }
    if log.state_changed > since:
        answer["state"] = session_json(log)
    return answer


def older_json(log: SessionLog, before: int) -> dict[str, Any]:
    """Return the entries before one."""
    end = min(before, len(log.entries))
    first = max(end - MAX_ENTRIES, 0)
    now = log.clock.now
    return {
        "epoch": log.epoch,
        "first": first,
        "entries": [entry_json(entry, -1, now) for entry in log.entries[first:end]],
    }


def _terminals(log: SessionLog, since: int) -> dict[str, Any]:
    from_transcript = log.transcript.terminals
    return {
        key: terminal_json(from_transcript[key])
        for key, time in log.terminals_changed.items()
        if time > since and key in from_transcript
    }


def entry_json(entry: Entry, since: int, now: int) -> dict[str, Any]:
    """Return an entry; of a message, the parts that changed after the time `since`."""
    value = entry.value
    shown: dict[str, Any] = {
        "id": entry.id,
        "kind": entry.kind,
        "message": entry.stamp.number,
        "last": entry.last,
        "seconds": round(entry.stamp.seconds, 3),
    }
    match entry.kind:
        case "message":
            assert isinstance(value, Message)
            assert entry.parts is not None
            first, parts = entry.parts.since(since, now)
            shown |= {"role": value.role, "from": first, "parts": parts}
            if entry.by:
                shown["by"] = one_line(entry.by, 60)
        case "tool":
            shown |= tool_call_json(value)
        case "plan":
            shown |= plan_json(value)
        case "end":
            state, seconds = value
            shown |= {
                "stopReason": one_line(state.stop_reason or "", 60),
                "error": None if state.error is None else error_json(state.error),
                "tokens": token_usage_json(state.token_usage),
                "took": seconds,
                "problem": entry.problem,
            }
        case "permission":
            shown |= _permission(value)
        case "steer":
            shown |= _steer(value)
        case "asked":
            shown |= {
                "what": value["what"],
                "title": one_line(value["title"], 500),
                "by": one_line(value["by"], 60),
                "answer": one_line(value["answer"], 200),
            }
        case "elicitation":
            shown |= {
                "mode": one_line(str(value["mode"]), 60),
                "text": bounded(str(value["message"]))["text"],
                "url": None if value["url"] is None else one_line(str(value["url"])),
                "outcome": _action(value["outcome"]),
            }
        case "error":
            shown |= {"method": one_line(value["method"]), "error": error_json(value["error"])}
        case "connection":
            shown |= {"side": one_line(value["side"]), "reason": one_line(value["reason"])}
        case "unreadable":
            shown |= {
                "method": one_line(value["method"]),
                "reason": one_line(value["reason"]),
            }
        case "unanswered":
            pass
        case "skipped":
            shown |= {"count": value}
        case "failure":
            shown |= {"reason": value}
        case _:
            shown |= _other(value)
    return shown


def _other(value: Any) -> dict[str, Any]:
    match value:
        case Notice():
            return {
                "severity": one_line(value.severity, 60),
                "title": one_line(value.title),
                "text": bounded(value.description or "")["text"],
            }
        case Compaction():
            return {
                "status": one_line(value.status, 60),
                "parts": contents_json(value.summary),
                "reason": one_line(value.error or ""),
            }
        case Subagent():
            return {
                "session": value.id,
                "title": one_line(value.title or value.id, 200),
                "text": bounded(value.description or "")["text"],
                "state": state_json(value.state),
            }
        case SessionMessage():
            return {
                "sender": one_line(value.sender or "?", 200),
                "recipient": one_line(value.recipient or "?", 200),
                "parts": contents_json(value.content),
            }
        case UnknownUpdate():
            return value_text(value.raw)
        case _:
            return {}


def _permission(value: dict[str, Any]) -> dict[str, Any]:
    options = {
        option["optionId"]: option
        for option in value["options"]
        if is_object(option) and isinstance(option.get("optionId"), str)
    }
    outcome, chosen = value["outcome"], None
    if outcome is not None:
        result: Any = outcome["value"]
        is_read = is_object(result) and not outcome["isError"]
        selected: Any = result.get("outcome") if is_read else None
        option_id = selected.get("optionId") if is_object(selected) else None
        option = options.get(option_id) if isinstance(option_id, str) else None
        if option is not None:
            chosen = {
                "name": one_line(str(option.get("name")), 200),
                "kind": one_line(str(option.get("kind")), 60),
            }
        elif isinstance(option_id, str):
            chosen = {"name": one_line(option_id, 200), "kind": "unknown"}
        else:
            kind = "cancelled" if selected is not None else "unanswered"
            chosen = {"name": _refusal(outcome) or kind, "kind": kind}
    return {
        "title": one_line(str(value["title"] or ""), 500),
        "description": one_line(str(value["description"] or "")),
        "command": None if value["command"] is None else one_line(str(value["command"])),
        "callId": value["callId"],
        "outcome": chosen,
    }


def _steer(value: dict[str, Any]) -> dict[str, Any]:
    """Return what the user said while a turn ran; if the agent took it, a message has the text."""
    answer, outcome = value["outcome"], "waiting"
    if answer is not None:
        known = None if answer["isError"] else outcome_of(answer["value"])
        outcome = known or _refusal(answer) or "unanswered"
    is_message = outcome == "injected"
    return {"outcome": outcome, "parts": [] if is_message else contents_json(value["content"])}


def _action(outcome: dict[str, Any] | None) -> str | None:
    if outcome is None:
        return None
    if outcome["isError"] or not is_object(outcome["value"]):
        return _refusal(outcome) or "unanswered"
    return one_line(str(outcome["value"].get("action")), 60)


def _refusal(outcome: dict[str, Any]) -> str:
    """Return the error that the client answered a question with; empty if it did not."""
    error: Any = outcome["value"]
    if not outcome["isError"] or not is_object(error):
        return ""
    return f"refused: {one_line(str(error.get('message', '')), 500)}"


def session_json(log: SessionLog) -> dict[str, Any]:
    """Return the state of a session."""
    transcript = log.transcript
    usage = transcript.usage
    return {
        "id": log.id,
        "label": one_line(log.id, 200),
        "title": None if transcript.title is None else one_line(transcript.title, 200),
        "cwd": None if log.cwd is None else one_line(log.cwd),
        "running": log.is_running,
        "closed": log.is_closed,
        "message": log.first.number,
        "state": state_json(transcript.state),
        "mode": None if transcript.mode is None else one_line(transcript.mode, 100),
        "options": [option_json(option) for option in transcript.options],
        "commands": [
            {
                "name": one_line(command.name, 100),
                "description": one_line(command.description),
                "hint": None if command.hint is None else one_line(command.hint, 200),
            }
            for command in transcript.commands[:MAX_COMMANDS]
        ],
        "usage": None
        if usage is None
        else {
            "used": usage.used,
            "size": usage.size,
            "cost": None if usage.cost is None else usage.cost.amount,
            "currency": None if usage.cost is None else one_line(usage.cost.currency, 10),
        },
    }
