"""Finds out from the frames of a connection which turns are running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from accord.remote.first_message import INITIALIZE
from accord.text.lenient_json import whole
from accord.transports.base import Frame

_HEAD_BYTES = 200  # in which an update has its method; other frames are decoded
_CLOSING = ("session/close", "session/delete")
_MOST = 10_000  # turns and requests of a connection that are watched at the same time


class _Message(Struct):
    """The parts of a message that matter here; the rest stays undecoded."""

    id: Any = UNSET
    method: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Update(Struct):
    kind: Any = field(name="sessionUpdate", default=None)
    state: Any = None
    stop_reason: Any = field(name="stopReason", default=None)


class _Params(Struct):
    session_id: Any = field(name="sessionId", default=None)
    meta: Any = field(name="_meta", default=None)


class _UpdateParams(Struct):
    session_id: Any = field(name="sessionId", default=None)
    update: _Update | UnsetType = UNSET


class _Result(Struct):
    version: Any = field(name="protocolVersion", default=None)
    stop_reason: Any = field(name="stopReason", default=None)


class _Error(Struct):
    code: Any = None


class Turn(Struct, eq=False):
    """A turn that is running; `meta` is the `_meta` of its prompt."""

    session_id: Any
    meta: Any = None
    outcome: str = "disconnected"  # the stop reason, or an error


class _Session(Struct, eq=False):
    """The turns of a session; `prompts` are those without a response, by request id."""

    prompts: dict[Any, Turn] = field(default_factory=dict[Any, Turn])
    # v2: whether the session is busy, the turns whose prompt has a response, and whether it was
    # busy and became idle since the oldest prompt without a response was sent.
    busy: bool = False
    accepted: list[Turn] = field(default_factory=list[Turn])
    has_ended: bool = False


TurnCallback: TypeAlias = Callable[[Turn], None]

_message = msgspec.json.Decoder(_Message)
_params = msgspec.json.Decoder(_Params)
_update_params = msgspec.json.Decoder(_UpdateParams)
_result = msgspec.json.Decoder(_Result)
_error = msgspec.json.Decoder(_Error)


class RunningTurns:
    """The running turns of one connection.

    In version 1 a turn ends with the response to its prompt, in version 2 with the update that
    the session is idle. Updates other than states are not decoded. `started` and `ended` are
    called with each turn.
    """

    def __init__(self, started: TurnCallback, ended: TurnCallback) -> None:
        self._started = started
        self._ended = ended
        self.initialized: bool = False
        self._count = 0  # turns
        self._version = 1
        self._sessions: dict[Any, _Session] = {}
        self._initializing: dict[Any, Any] = {}  # request ids
        self._closing: dict[Any, Any] = {}  # session ids by request id

    def __len__(self) -> int:
        return sum(
            len(session.prompts) + len(session.accepted)
            or (1 if session.busy else 0)  # the agent has started the work
            for session in self._sessions.values()
        )

    @property
    def initializing(self) -> list[Any]:
        """The ids of `initialize` requests without a response."""
        return list(self._initializing.values())

    def from_client(self, frame: Frame) -> None:
        """Take notice of a frame of the client."""
        if b"/prompt" in frame:
            if (prompt := prompt_of(frame)) is not None:
                self._prompt(*prompt)
        elif b"initialize" in frame:
            message = _decoded(_message, frame)
            if message is not None and message.method in INITIALIZE:
                self._initializing[_key(message.id)] = message.id
        elif self._sessions and (b"/close" in frame or b"/delete" in frame):
            message = _decoded(_message, frame)
            if message is not None and message.method in _CLOSING and len(self._closing) < _MOST:
                params = _decoded(_params, message.params)
                if params is not None:
                    self._closing[_key(message.id)] = _key(params.session_id)

    def from_agent(self, frames: Sequence[Frame]) -> None:
        """Take notice of frames of the agent."""
        is_v2 = self._version == 2
        for frame in frames:
            if frame.find(b'"session/update"', 0, _HEAD_BYTES) < 0:
                self._other(frame)
            elif is_v2 and b'"state_update"' in frame:
                self._state(frame)

    def _other(self, frame: Frame) -> None:
        if self._sessions or self._initializing:
            message = _decoded(_message, frame)
            if message is None:
                return
            if message.method is not UNSET:
                if message.method == "session/update" and b"state_update" in frame:
                    self._state(frame)
            elif message.id is not UNSET:
                self._response(message)

    def end_all(self) -> None:
        """End the turns that are still running: the connection has ended."""
        for session in self._sessions.values():
            for turn in (*session.prompts.values(), *session.accepted):
                self._end(turn)
        self._sessions.clear()

    def _prompt(self, request_id: Any, turn: Turn) -> None:
        session = self._sessions.setdefault(_key(turn.session_id), _Session())
        if not session.prompts:
            session.has_ended = False
        if (key := _key(request_id)) not in session.prompts and self._count < _MOST:
            session.prompts[key] = turn
            self._count += 1
            self._started(turn)
        self._forget_if_idle(_key(turn.session_id))

    def _end(self, turn: Turn) -> None:
        self._count -= 1
        self._ended(turn)

    def _response(self, message: _Message) -> None:
        request_id = _key(message.id)
        if request_id in self._initializing:
            del self._initializing[request_id]
            self.initialized = self.initialized or message.error is UNSET
            result = _decoded(_result, message.result)
            version = None if result is None else whole(result.version)
            if type(version) is int:
                self._version = version
            return
        if request_id in self._closing:
            closed = self._closing.pop(request_id)
            if message.error is UNSET and closed in self._sessions:
                session = self._sessions[closed]
                session.busy = False
                self._end_accepted(session, "closed")
                self._forget_if_idle(closed)
            return
        for key, session in self._sessions.items():
            turn = session.prompts.pop(request_id, None)
            if turn is not None:
                self._answered(session, turn, message)
                self._forget_if_idle(key)
                return

    def _answered(self, session: _Session, turn: Turn, message: _Message) -> None:
        if message.error is not UNSET:
            error = _decoded(_error, message.error)
            code = None if error is None else whole(error.code)
            code = code if type(code) is int else None
            turn.outcome = f"error {code}" if code is not None else "error"
            self._end(turn)
        elif self._version == 1:
            result = _decoded(_result, message.result)
            turn.outcome = _word(None if result is None else result.stop_reason)
            self._end(turn)
        elif session.has_ended and not session.busy:
            self._end(turn)
        else:
            session.accepted.append(turn)

    def _state(self, frame: Frame) -> None:
        """Take notice of the state of a session (v2)."""
        message = _decoded(_message, frame)
        params = None if message is None else _decoded(_update_params, message.params)
        if params is None or params.update is UNSET or params.update.kind != "state_update":
            return
        key, update = _key(params.session_id), params.update
        if update.state == "idle":
            session = self._sessions.get(key)
            if session is not None:
                outcome = _word(update.stop_reason)
                if session.busy:
                    session.has_ended = True
                    for turn in session.prompts.values():
                        turn.outcome = outcome  # if its response arrives after its end
                session.busy = False
                self._end_accepted(session, outcome)
                self._forget_if_idle(key)
        elif update.state in ("running", "requires_action"):
            session = self._sessions.setdefault(key, _Session())
            session.busy = True

    def _end_accepted(self, session: _Session, outcome: str) -> None:
        for turn in session.accepted:
            turn.outcome = outcome
            self._end(turn)
        session.accepted.clear()

    def _forget_if_idle(self, key: Any) -> None:
        session = self._sessions[key]
        if not session.prompts and not session.accepted and not session.busy:
            del self._sessions[key]


def prompt_of(frame: Frame) -> tuple[Any, Turn] | None:
    """Return the request id and the turn of a frame that is a `session/prompt` request."""
    message = _decoded(_message, frame)
    if message is None or message.method != "session/prompt" or message.id is UNSET:
        return None
    params = _decoded(_params, message.params)
    if params is None:
        return None
    return message.id, Turn(params.session_id, params.meta)


def _decoded(decoder: msgspec.json.Decoder[Any], text: Any) -> Any:
    """Return a decoded text, None if it is missing or has another shape."""
    if text is UNSET:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _key(value: Any) -> Any:
    """Return a key for an id: valid ones are numbers and strings, and 1 differs from true."""
    return value if type(value) in (int, str) else None


def _word(stop_reason: Any) -> str:
    return stop_reason[:40] if isinstance(stop_reason, str) else "unknown"
