"""The conversation of a recording as steps, and what each step of the agent waits for.

The frames of a large recording are in a file. Ids and directories of the recording and of the live
side are replaced both ways.
"""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.types.steering import STEERING
from accord_trace.diff import id_kind
from accord_trace.reading import TraceError
from accord_trace.records import Record, is_damaged

# The frames of a recording: those of a large one are in a file.

_MEMORY_BYTES = 64 * 1024 * 1024


class Frames:
    """Keeps frames: the first ones in memory, the rest in a temporary file without a name."""

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._room = memory_bytes
        self._fd = -1
        self._size = 0

    def keep(self, frame: bytes) -> bytes | StoredFrame:
        """Return the frame, or its place; raise `OSError` if the file cannot be written."""
        if self._room > 0:
            self._room -= len(frame)
            return frame
        if self._fd < 0:
            with tempfile.TemporaryFile(prefix="accord-") as file:
                self._fd = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._fd)
        stored = StoredFrame(self, self._size, len(frame))
        os.lseek(self._fd, self._size, os.SEEK_SET)
        while frame:
            written = os.write(self._fd, frame)
            self._size += written
            frame = frame[written:]
        return stored

    def read(self, at: int, size: int) -> bytes:
        """Return what is in the file at a place."""
        os.lseek(self._fd, at, os.SEEK_SET)
        return os.read(self._fd, size)


class StoredFrame:
    """A frame that is in the file."""

    __slots__ = ("_at", "_frames", "_size")

    def __init__(self, frames: Frames, at: int, size: int) -> None:
        self._frames = frames
        self._at = at
        self._size = size

    def read(self) -> bytes:
        """Return the frame."""
        return self._frames.read(self._at, self._size)


StepKind: TypeAlias = Literal["request", "response", "notification", "invalid", "end"]
# What a client decides during a turn, so that the reaction to it has to wait for it.
_AWAITED = frozenset(("session/cancel", "$/cancel_request"))


class Step(Struct, eq=False, kw_only=True):
    """One message of the recorded hop.

    `number` counts the messages of the recording from 1. `request` is the request of a response.
    For a step of the agent, `cause` is the client's request in whose course it was sent, and
    `awaits` has the steps of the client since the previous step of the same cause: answers to
    requests of the agent, cancels, and what the user said while the turn ran. For a request of the
    client, `reactions` has its steps.
    """

    number: int
    ts: float
    from_client: bool
    kind: StepKind
    stored: bytes | StoredFrame
    method: str = ""
    session: str | None = None
    id: str = ""
    is_error: bool = False
    request: Step | None = None
    response: Step | None = None
    cause: Step | None = None
    awaits: Sequence[Step] = ()
    reactions: list[Step] | None = None

    @property
    def frame(self) -> bytes:
        """The frame as it was sent."""
        return self.stored if isinstance(self.stored, bytes) else self.stored.read()

    def message(self) -> dict[str, Any]:
        """Return the decoded frame; an empty object if it is not a message."""
        try:
            value = lenient_json.loads(self.frame)
        except lenient_json.NotJson:
            return {}
        return value if is_object(value) else {}

    def value(self) -> Any:
        """Return the params, the result or the error."""
        message = self.message()
        if self.kind == "response":
            return message.get("error" if self.is_error else "result")
        return message.get("params")

    @property
    def title(self) -> str:
        """The message for people, such as `response to session/new (message 4)`."""
        what = f"response to {self.method}" if self.kind == "response" else self.method
        return f"{what or self.kind} (message {self.number})"


class Script:
    """The steps of one connection of a recording, and their causes.

    `opening` has the steps of the agent before the first request of the client.
    """

    def __init__(self, frames: Frames) -> None:
        self.steps: list[Step] = []
        self.opening: list[Step] = []
        self.redacted: int = 0  # messages in which secrets were replaced
        self.client_ended: bool = False
        self._open: dict[tuple[bool, str], Step] = {}
        self._prompts: list[Step] = []  # the turns that run, the latest last
        self._latest: Step | None = None  # request of the client
        self._latest_of: dict[str | None, Step] = {}
        self._awaits: dict[int, list[Step]] = {}  # by the number of the cause
        self._is_v2 = False
        self._frames = frames

    def has_no_end(self, request: Step) -> bool:
        """Return whether a request has no response, or its turn no end, in the recording."""
        return request.response is None or request in self._prompts

    @property
    def requests(self) -> list[Step]:
        """The requests of the client."""
        return [step for step in self.steps if step.from_client and step.kind == "request"]

    def add(self, number: int, record: Record) -> None:
        """Add a message of the connection."""
        step = Step(
            number=number,
            ts=record.ts,
            from_client=record.dir == "to_agent",
            kind=_kind(record),
            stored=self._frames.keep(record.frame),
            session=None if record.session is None else intern(record.session),
            id=record.id_text,
            is_error=record.is_error,
        )
        self.redacted += record.redacted
        if step.kind == "end" and (self.client_ended or step.from_client):
            self.client_ended = True
            return
        if step.kind in ("request", "notification"):
            step.method = intern(str(record.method))
            if record.protocol == "mcp":  # the record has what is inside the message
                method = step.message().get("method")
                step.method = method if isinstance(method, str) else step.method
        if step.kind == "request":
            self._open[step.from_client, step.id] = step
        elif step.kind == "response":
            self._pair(step)
        self.steps.append(step)
        if step.from_client:
            self._add_of_client(step)
        else:
            self._add_of_agent(step)

    def _pair(self, step: Step) -> None:
        request = self._open.pop((not step.from_client, step.id), None)
        if request is None:
            return
        step.request, request.response = request, step
        step.method = request.method
        if request.session is None:
            request.session = step.session  # of a session that the request opened
            if step.session is not None and request.from_client:
                self._latest_of[step.session] = request
        if request.method == "initialize" and not step.is_error:
            result = step.value()
            self._is_v2 = is_object(result) and result.get("protocolVersion") == 2

    def _add_of_client(self, step: Step) -> None:
        if step.kind == "request":
            self._latest = step
            self._latest_of[step.session] = step
            if step.method == "session/prompt":
                self._prompts.append(step)
            elif step.method == STEERING:
                turn = self._cause(step.session)
                if turn in self._prompts:  # what follows may be about it
                    self._awaits.setdefault(turn.number, []).append(step)
        elif step.kind == "response":
            if step.request is not None and step.request.cause is not None:
                self._awaits.setdefault(step.request.cause.number, []).append(step)
        elif step.method in _AWAITED:
            cause = self._cause(step.session)
            if cause is not None:
                self._awaits.setdefault(cause.number, []).append(step)

    def _add_of_agent(self, step: Step) -> None:
        request = step.request if step.kind == "response" else None
        cause = request if request is not None else self._cause(step.session)
        step.cause = cause
        if cause is None:
            self.opening.append(step)
        else:
            step.awaits = self._awaits.pop(cause.number, [])
            if cause.reactions is None:
                cause.reactions = []
            cause.reactions.append(step)
        self._end_turn(step, request)

    def _cause(self, session: str | None) -> Step | None:
        """Return the running turn of a session, else its latest request, else those of others."""
        if session is not None:
            for prompt in reversed(self._prompts):
                if prompt.session == session:
                    return prompt
            if session in self._latest_of:
                return self._latest_of[session]
            latest = self._latest
            if latest is not None and latest.response is None and latest.session is None:
                return latest  # it opens this session
        return self._prompts[-1] if self._prompts else self._latest

    def _end_turn(self, step: Step, request: Step | None) -> None:
        if request is not None and request in self._prompts:
            if not self._is_v2 or step.is_error:
                self._prompts.remove(request)
        elif self._is_v2 and step.cause in self._prompts and is_idle(step):
            self._prompts.remove(step.cause)


def is_idle(step: Step) -> bool:
    """Return whether a step is the end of a turn of version 2."""
    if step.method != "session/update" or b'"idle"' not in step.frame:
        return False
    params = step.value()
    update = params.get("update") if is_object(params) else None
    return is_object(update) and update.get("state") == "idle" and "stopReason" in update


def read_scripts(records: Iterable[Record]) -> list[Script]:
    """Return a script for each connection of the hop next to the client, in order.

    Of a large recording, the frames are in a temporary file, and a message takes about 500 bytes of
    memory. Raise `TraceError` if the client has sent no message.
    """
    hops: dict[tuple[str, str, str], Script] = {}
    frames = Frames()
    for number, record in enumerate(records, 1):
        if record.protocol == "mcp" and record.raw is UNSET:
            continue  # Rust's format has only what was inside a message of ACP
        if is_damaged(record):
            continue
        ends = (record.sender, record.receiver)
        client, agent = ends if record.dir == "to_agent" else ends[::-1]
        hop = (client, agent, record.conn)
        if hop not in hops:
            hops[hop] = Script(frames)
        hops[hop].add(number, record)
    if not hops:
        raise TraceError("Expected a recording with messages, found none")
    client = next((ends[0] for ends in hops if ends[0].lower() == "client"), next(iter(hops))[0])
    scripts = [script for hop, script in hops.items() if hop[0] == client and script.requests]
    if not scripts:
        raise TraceError("Expected a recording with requests of a client, found none")
    return scripts


def _kind(record: Record) -> StepKind:
    return record.type  # type: ignore[return-value]  # the reader checks it


# Ids and directories of a recording, and those of the live side: replaced both ways.

_DIRECTORIES = ("cwd", "additionalDirectories")
_ABSOLUTE = re.compile(r"(?:/|\\\\|[A-Za-z]:[\\/])[^\0]")


class ValueMap:
    """The live values for ids and directories of the recording.

    Ids are replaced where they are the value of a field for them, directories in every text: with
    everything below them. Each session has its own directories, because two sessions may have the
    same in one place and different ones in the other.
    """

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], str] = {}
        self._recorded: dict[tuple[str, str], str] = {}
        self._live_paths: dict[str | None, dict[str, str]] = {}
        self._recorded_paths: dict[str | None, dict[str, str]] = {}
        self._patterns: dict[tuple[bool, str | None], re.Pattern[str] | None] = {}

    def bind_id(self, kind: str, recorded: str, live: str) -> bool:
        """Pair two ids; return False if either is paired with another one already."""
        known = self._live.get((kind, recorded)), self._recorded.get((kind, live))
        if known == (None, None):
            if recorded == live:
                return True
            self._live[kind, recorded] = live
            self._recorded[kind, live] = recorded
            return True
        return known == (live, recorded)

    def bind_directories(self, session: str | None, recorded: Any, live: Any) -> None:
        """Pair the directories in the params of a recorded and a live request."""
        if not is_object(recorded) or not is_object(live):
            return
        for key in _DIRECTORIES:
            pairs = zip(_texts(recorded.get(key)), _texts(live.get(key)), strict=False)
            for old, new in pairs:
                self._bind_path(session, old, new)

    def may_change(self, frame: bytes, session: str | None) -> bool:
        """Return whether a recorded frame may contain what differs on the live side."""
        texts = [*self._paths(True, session), *(recorded for _, recorded in self._live)]
        # A frame with escapes may spell them in another way.
        return bool(texts) and (b"\\" in frame or any(one.encode() in frame for one in texts))

    def live_id(self, kind: str, recorded: str) -> str | None:
        """Return the live id for a recorded one; None if there is none yet."""
        return self._live.get((kind, recorded))

    def recorded_id(self, kind: str, live: str) -> str | None:
        """Return the recorded id for a live one; None if there is none yet."""
        return self._recorded.get((kind, live))

    def bind_ids_of(self, recorded: Any, live: Any) -> None:
        """Bind the ids that two messages have in the same places."""
        if is_object(recorded) and is_object(live):
            for key, old in recorded.items():
                new = live.get(key)
                kind = id_kind(key)
                if kind is None:
                    self.bind_ids_of(old, new)
                elif isinstance(old, str) and isinstance(new, str):
                    self.bind_id(kind, old, new)
        elif is_array(recorded) and is_array(live):
            for old, new in zip(recorded, live, strict=False):
                self.bind_ids_of(old, new)

    def to_live(self, value: Any, session: str | None) -> Any:
        """Return a recorded value with live ids and directories; `session` is the recorded one."""
        return self._mapped(value, self._live, self._pattern(True, session))

    def to_recorded(self, value: Any, session: str | None) -> Any:
        """Return a live value with recorded ids and directories; `session` is the recorded one."""
        return self._mapped(value, self._recorded, self._pattern(False, session))

    def _bind_path(self, session: str | None, recorded: str, live: str) -> None:
        old, new = _trimmed(recorded), _trimmed(live)
        if _ABSOLUTE.match(old) is None or _ABSOLUTE.match(new) is None or old == new:
            return
        for place in (session, None):  # of a message without a session, the first one's
            self._live_paths.setdefault(place, {}).setdefault(old, new)
            self._recorded_paths.setdefault(place, {}).setdefault(new, old)
        self._patterns.clear()

    def _paths(self, to_live: bool, session: str | None) -> dict[str, str]:
        by_session = self._live_paths if to_live else self._recorded_paths
        return by_session.get(session) or by_session.get(None) or {}

    def _pattern(self, to_live: bool, session: str | None) -> _Paths | None:
        key = (to_live, session)
        paths = self._paths(to_live, session)
        if not paths:
            return None
        if key not in self._patterns:
            words = "|".join(map(re.escape, sorted(paths, key=len, reverse=True)))
            # Whole components only: /project is not in /my/project-2 nor in /project.bak.
            self._patterns[key] = re.compile(rf"(?<![\w.~-])(?:{words})(?![\w~-]|\.\w)")
        pattern = self._patterns[key]
        return None if pattern is None else _Paths(pattern, paths)

    def _mapped(self, value: Any, ids: dict[tuple[str, str], str], paths: _Paths | None) -> Any:
        if not ids and paths is None:
            return value
        return _mapped(value, ids, paths, "", 0)


class _Paths:
    """Replaces directories in a text."""

    def __init__(self, pattern: re.Pattern[str], paths: dict[str, str]) -> None:
        self._pattern = pattern
        self._paths = paths

    def replaced(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._paths[match[0]], text)


def _mapped(
    value: Any, ids: dict[tuple[str, str], str], paths: _Paths | None, key: str, depth: int
) -> Any:
    if isinstance(value, str):
        kind = id_kind(key)
        if kind is not None and (kind, value) in ids:
            return ids[kind, value]
        return value if paths is None else paths.replaced(value)
    if depth > 100:
        return value
    if is_object(value):
        return {name: _mapped(item, ids, paths, name, depth + 1) for name, item in value.items()}
    if is_array(value):
        return [_mapped(item, ids, paths, key, depth + 1) for item in value]
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if is_array(value) else []


def _trimmed(path: str) -> str:
    return path.rstrip("/\\") or path
