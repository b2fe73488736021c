"""Reads the store of acpx: records, their streams of messages, and its archives (R-NAMED-07)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from accord.text import lenient_json
from accord_terminal.sessions.entries import Ended, Entry, Queued, Started, Updated
from accord_terminal.sessions.errors import StoreError
from accord_terminal.sessions.records import Record, Store

SCHEMA = "acpx.session.v1"
_BY = "acpx"
_TEXT_CHARACTERS = 200


class _AcpxRecord(Struct):
    """What Accord uses of a record; the rest is kept as it is."""

    acpx_record_id: str
    agent_command: str
    cwd: str
    created_at: str
    last_used_at: str
    acp_session_id: str | None = None
    agent_argv: list[str] | None = None
    name: str | None = None
    closed: bool = False
    protocol_version: int | None = None
    title: str | None = None
    messages: list[Any] = field(default_factory=list[Any])


def record_files(path: Path) -> list[Path]:
    """Return the records in `~/.acpx`, in its folder of sessions, or a single one."""
    if path.is_file():
        return [path]
    folder = path / "sessions" if (path / "sessions").is_dir() else path
    return sorted(folder.glob("*.json"))


def stored_session(file: Path) -> tuple[Record, list[Entry]] | None:
    """Return a session of the store; None if the file is not a record of acpx."""
    try:
        value = lenient_json.loads(file.read_bytes())
    except (OSError, lenient_json.NotJson) as exc:
        raise StoreError(f"Cannot read {file}: {exc}") from None
    if not lenient_json.is_object(value) or value.get("schema") != SCHEMA:
        return None
    return _session(value, _frames(file), str(file))


def archive_session(value: dict[str, Any], where: str) -> tuple[Record, list[Entry]] | None:
    """Return the session of an archive of `acpx sessions export`; None for another file."""
    session: Any = value.get("session")
    history: Any = value.get("history")
    if value.get("exported_by") != _BY or not lenient_json.is_object(session):
        return None
    state: Any = session.get("state")
    if not lenient_json.is_object(state) or not lenient_json.is_array(history):
        return None
    return _session(state, (each for each in history if lenient_json.is_object(each)), where)


def _session(
    value: dict[str, Any], frames: Iterable[dict[str, Any]], where: str
) -> tuple[Record, list[Entry]]:
    try:
        found = msgspec.convert(value, _AcpxRecord)
        argv = tuple(found.agent_argv or shlex.split(found.agent_command))
    except (msgspec.ValidationError, ValueError) as exc:
        raise StoreError(f"The record of acpx in {where} is invalid: {exc}") from None
    if not argv:
        raise StoreError(f"The record of acpx in {where} has no agent")
    entries = [*_entries(frames, found.last_used_at)]
    entries = entries or [*_entries_of_messages(found)]
    extra = {key: kept for key, kept in value.items() if key not in ("messages", "schema")}
    record = Record(
        id=Store.new_id(),
        name=found.name,
        cwd=found.cwd,
        agent=found.agent_command,
        argv=argv,
        created_at=found.created_at,
        used_at=found.last_used_at,
        closed=found.closed,
        protocol=1 if found.protocol_version != 2 else 2,
        agent_session=found.acp_session_id,
        title=found.title,
        imported_from=f"acpx:{found.acpx_record_id}",
        extra=extra,
    )
    return record, entries


def _frames(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the messages of all segments, the oldest first."""
    for segment in _segments(file):
        with segment.open("rb") as lines:
            for line in lines:
                try:
                    value = lenient_json.loads(line)
                except lenient_json.NotJson:
                    continue  # cut off by a crash
                if lenient_json.is_object(value) and "jsonrpc" in value:
                    yield value


def _segments(file: Path) -> list[Path]:
    """Return the current stream and the rotated ones, of which higher numbers are older."""

    def age(path: Path) -> int:
        found = re.search(r"\.stream\.(\d+)\.ndjson$", path.name)
        return 0 if found is None else int(found[1])

    return sorted(file.parent.glob(f"{file.stem}.stream*.ndjson"), key=age, reverse=True)


def _entries(frames: Iterable[dict[str, Any]], at: str) -> Iterator[Entry]:
    """Yield the turns; what is outside of them, such as a replay, is not repeated."""
    running: dict[Any, str] = {}  # prompt ids by request id
    prompt: str | None = None
    count = 0
    for frame in frames:
        params: Any = frame.get("params")
        if frame.get("method") == "session/prompt" and lenient_json.is_object(params):
            count += 1
            prompt = f"acpx-{count}"
            running[str(frame.get("id"))] = prompt
            yield from _begin(prompt, params.get("prompt") or [], at)
        elif frame.get("method") == "session/update" and lenient_json.is_object(params):
            if prompt is not None and "update" in params:
                update = Raw(lenient_json.dumps(params["update"]))
                yield Updated(prompt=prompt, at=at, update=update)
        elif "method" not in frame and (ended := running.pop(str(frame.get("id")), None)):
            prompt = None
            yield _end(ended, frame, at)
    if prompt is not None:
        yield Ended(prompt=prompt, at=at, stop_reason="error", error="The turn was not recorded")


def _begin(prompt: str, blocks: list[Any], at: str) -> Iterator[Entry]:
    content = Raw(lenient_json.dumps(blocks))
    texts = (block.get("text", "") for block in blocks if lenient_json.is_object(block))
    text = " ".join(" ".join(texts).split())[:_TEXT_CHARACTERS]
    yield Queued(prompt=prompt, at=at, content=content, text=text, by=_BY)
    yield Started(prompt=prompt, at=at, content=content, by=_BY)


def _end(prompt: str, frame: dict[str, Any], at: str) -> Ended:
    error: Any = frame.get("error")
    if lenient_json.is_object(error):
        message, code = str(error.get("message")), error.get("code")
        code = code if isinstance(code, int) else None
        return Ended(prompt=prompt, at=at, stop_reason="error", error=message, code=code)
    result: Any = frame.get("result")
    reason = result.get("stopReason") if lenient_json.is_object(result) else None
    return Ended(prompt=prompt, at=at, stop_reason=str(reason or "end_turn"))


def _entries_of_messages(found: _AcpxRecord) -> Iterator[Entry]:
    """Yield the turns of a record whose stream was pruned: only their texts."""
    prompt: str | None = None
    at = found.last_used_at
    for count, message in enumerate(found.messages, 1):
        if not lenient_json.is_object(message):
            continue
        if "User" in message:
            if prompt is not None:
                yield Ended(prompt=prompt, at=at, stop_reason="end_turn")
            prompt = f"acpx-{count}"
            blocks = [{"type": "text", "text": text} for text in _texts(message["User"])]
            yield from _begin(prompt, blocks, at)
        elif "Agent" in message and prompt is not None:
            for text in _texts(message["Agent"]):
                update = {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": text},
                }
                yield Updated(prompt=prompt, at=at, update=Raw(lenient_json.dumps(update)))
    if prompt is not None:
        yield Ended(prompt=prompt, at=at, stop_reason="end_turn")


def _texts(message: Any) -> Iterator[str]:
    content: Any = message.get("content") if lenient_json.is_object(message) else None
    for part in content if lenient_json.is_array(content) else ():
        if lenient_json.is_object(part) and isinstance(text := part.get("Text"), str):
            yield text
