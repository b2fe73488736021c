"""What the list of a folder says about each recording."""

from __future__ import annotations

from typing import Any

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord_trace.reading import Trace, TraceError
from accord_trace.records import Record
from accord_trace.summary import update_of

BEGINNING = 8_000_000  # bytes that are read of a recording: a line can be longer
_TITLE = 120  # characters


def summary_json(trace: Trace) -> dict[str, Any]:
    """Return the title, the agent, the time, the size and the turns of a recording.

    The title is that of the last session that has one, else the first prompt. If only the
    beginning of the recording is read, `complete` is false.
    """
    found: dict[str, Any] = {
        "name": trace.name,
        "size": sum(file.stat().st_size for file in trace.files),
        "title": "",
        "agent": "",
        "turns": 0,
        "sessions": 0,
        "complete": True,
    }
    sessions: set[str] = set()
    prompt = ""
    try:
        for record in trace:
            if record.session is not None:
                sessions.add(record.session)
            if record.method == "session/prompt" and record.type == "request":
                found["turns"] += 1
                prompt = prompt or _prompt_text(record)
            elif record.type == "response" and not found["agent"]:
                found["agent"] = _agent_name(record.value())
            elif (update := update_of(record)) is not None:
                found["title"] = _title(update) or found["title"]
    except (TraceError, OSError) as error:
        return {**found, "complete": not trace.was_cut, "problem": str(error)}
    found["complete"] = not trace.was_cut
    found["title"] = one_line(found["title"] or prompt, _TITLE)
    found["sessions"] = len(sessions)
    found["time"] = trace.header.t
    return found


def _agent_name(result: Any) -> str:
    """Return the agent's name and version if this is the result of `initialize`."""
    if not is_object(result) or "protocolVersion" not in result:
        return ""
    info = result.get("agentInfo") or result.get("info")
    if not is_object(info):
        return ""
    words = (info.get("title") or info.get("name"), info.get("version"))
    return one_line(" ".join(word for word in words if isinstance(word, str)), 80)


def _title(update: dict[str, Any]) -> str:
    title = update.get("title") if update.get("sessionUpdate") == "session_info_update" else None
    return title if isinstance(title, str) else ""


def _prompt_text(record: Record) -> str:
    params = record.value()
    blocks = params.get("prompt") if is_object(params) else None
    texts = [
        block["text"]
        for block in (blocks if is_array(blocks) else ())
        if is_object(block) and isinstance(block.get("text"), str)
    ]
    return " ".join(texts)
