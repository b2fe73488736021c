"""Watches the connections of a server, and ends them when the server goes away.

`Monitor` serves connections until they end. `MonitoredTransport` is one of them, watched: its
turns (`RunningTurns` finds them in the frames), its traffic, and when it is idle. `FirstMessage`
refuses a connection that does not begin with `initialize`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from accord.errors import TransportError
from accord.remote.access import (
    GOING_AWAY,
    INTERNAL,
    NORMAL,
    PROTOCOL_ERROR,
    NetworkTransport,
    Principal,
)
from accord.text import lenient_json
from accord.text.lenient_json import whole
from accord.transports.base import Frame, NullReceiver, Receiver, Transport

FAILED_TEXT = "internal error"
END_S = 8.0  # for agents to end after their connection; processes are killed within it

# Serves one connection until it ends.
ServeConnection: TypeAlias = Callable[[Transport, Principal], Coroutine[Any, Any, object]]


class Monitor:
    """Serves connections by `serve`, and watches them; `observers` are called about each."""

    def __init__(
        self,
        serve: ServeConnection,
        *,
        idle_s: float = 0.0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._serve = serve
        self._idle_s = idle_s
        self._observers = observers
        self._connections: set[MonitoredTransport] = set()
        self._changed = asyncio.Event()
        self.draining: bool = False

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return sum(connection.running_turns for connection in self._connections)

    async def serve(
        self,
        transport: NetworkTransport,
        principal: Principal,
        *,
        id: str,  # noqa: A002  # the word of the protocol: Acp-Connection-Id
        kind: str,
    ) -> None:
        """Serve a connection until it ends; `kind` is the name of its transport."""
        connection = MonitoredTransport(
            transport,
            self._observers,
            id=id,
            kind=kind,
            principal=principal.shown,
            idle_s=self._idle_s,
        )
        self._connections.add(connection)
        for observer in self._observers:
            observer.connection_opened(connection)
        if self.draining:  # since the connection was admitted
            connection.drain()
        try:
            await self._serve(connection, principal)
        except TransportError:
            raise
        except Exception:
            transport.close_code, transport.close_reason = INTERNAL, FAILED_TEXT  # R-WS-16
            raise
        finally:
            await connection.aclose()
            self._connections.discard(connection)
            self._changed.set()
            connection.closed()
            for observer in self._observers:
                observer.connection_closed(connection)

    async def drain(self, timeout_s: float) -> None:
        """Let running turns end for at most `timeout_s` seconds, then end all connections.

        New turns are refused. Each client is disconnected as soon as it has no running turn.
        """
        self.draining = True
        for connection in list(self._connections):
            connection.drain()
        await self._wait_until_none(timeout_s)
        await self.disconnect(END_S)

    async def disconnect(self, timeout_s: float) -> None:
        """End all connections now, and wait for their agents at most `timeout_s` seconds."""
        self.draining = True
        for connection in list(self._connections):
            connection.end(GOING_AWAY, GOING_AWAY_TEXT)
        await self._wait_until_none(timeout_s)

    async def _wait_until_none(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._connections:
                    self._changed.clear()
                    await self._changed.wait()


# A connection of a server, watched: its turns, its traffic, and when it is idle.

GOING_AWAY_TEXT = "the server is going away"
IDLE_TEXT = "no message and no running turn for a long time"
AGENT_ENDED_TEXT = "the agent has ended"
FIRST_TEXT = "the first message must be initialize"


class Traffic:
    """What has passed in one direction."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: int = 0
        self.bytes: int = 0

    def add(self, frames: Sequence[Frame]) -> None:
        self.messages += len(frames)
        self.bytes += sum(map(len, frames))


class Observer(Protocol):
    """Called about the connections of a server; see `Monitor`."""

    def connection_opened(self, connection: MonitoredTransport) -> None: ...

    def connection_closed(self, connection: MonitoredTransport) -> None: ...

    def turn_started(self, connection: MonitoredTransport, turn: Turn) -> None: ...

    def turn_ended(self, connection: MonitoredTransport, turn: Turn) -> None: ...

    def stalled(self, connection: MonitoredTransport, duration_s: float) -> None: ...


class MonitoredTransport(Transport):
    """Passes frames between a client's connection and its agent, and watches them.

    Update frames are counted and not decoded. It is the receiver of the connection, and the
    transport of the agent, which is an object or a process.
    """

    def __init__(
        self,
        inner: NetworkTransport,
        observers: Sequence[Observer],
        *,
        id: str,  # noqa: A002  # the word of the protocol: Acp-Connection-Id
        kind: str,
        principal: str,
        idle_s: float = 0.0,
    ) -> None:
        self.frame_bytes: int = inner.frame_bytes
        self.id: str = id
        self.kind: str = kind
        self.principal: str = principal
        self.received: Traffic = Traffic()
        self.sent: Traffic = Traffic()
        self.turns: int = 0  # started
        self.opened_at: float = asyncio.get_running_loop().time()
        self._inner = inner
        self._observers = observers
        self._receiver: Receiver = NullReceiver()
        self._first = FirstMessage() if kind == "websocket" else None
        self._running = RunningTurns(self._turn_started, self._turn_ended)
        self._idle_s = idle_s
        self._active_at = self.opened_at
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stalled_at: float | None = None
        self._draining = False
        self._has_ended = False
        self.ended_by: str = "agent"  # or "client" or "server"
        self._closing: asyncio.Task[None] | None = None

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return len(self._running)

    @property
    def close_code(self) -> int:
        """The code with which the server closes the connection, or has closed it."""
        return self._inner.close_code

    @property
    def age_s(self) -> float:
        """The time since the connection was opened."""
        return asyncio.get_running_loop().time() - self.opened_at

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait for the client to read."""
        return self._inner.unsent_bytes

    # The transport of the agent.

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._wait_until_idle()
        await self._inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        self.sent.add(frames)
        if not self._has_ended:  # what the client does not receive has ended no turn
            self._running.from_agent(frames)
        self._inner.write(frames)
        self._note_activity()
        if self._stalled_at is None and self._inner.congested:
            self._stalled_at = self._active_at

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._stop_timer()
        if not self._has_ended:  # neither by the client nor by the server
            self._has_ended = True
            if self._inner.close_code == NORMAL:
                self._inner.close_code, self._inner.close_reason = INTERNAL, AGENT_ENDED_TEXT
            for request_id in self._running.initializing:
                self._answer(request_id, "The agent could not be started", "agent")
        await self._inner.aclose()
        if self._closing is not None:
            await self._closing

    async def exit_error(self) -> Exception | None:
        return await self._inner.exit_error()

    # The receiver of the client's frames.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._has_ended:
            return
        self.received.add(frames)
        self._note_activity()
        if self._first is not None:
            frames = self._checked(self._first, frames)
        if self._draining:
            frames = [frame for frame in frames if not self._refuse_prompt(frame)]
        for frame in frames:
            self._running.from_client(frame)
        if frames:
            self._receiver.frames_received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._receiver.frame_refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self.ended_by = "client"
        self._stop_timer()
        self._end_stall()
        self._receiver.eof_received(error)

    def writable(self) -> None:
        self._end_stall()
        self._receiver.writable()

    # The end.

    def drain(self) -> None:
        """Refuse new turns, and close the connection once none is running."""
        self._draining = True
        self._end_if_drained()

    def end(self, code: int, reason: str) -> None:
        """Close the connection with a code and a reason; its agent sees the end of input."""
        if self._has_ended:
            return
        self._inner.close_code = code
        self._inner.close_reason = reason
        self.eof_received(None)
        self.ended_by = "server"
        self._closing = asyncio.create_task(self._inner.aclose(), name="accord close")

    def closed(self) -> None:
        """Report the turns that the end of the connection has ended."""
        self._stop_timer()
        self._end_stall()
        self._running.end_all()

    def _end_if_drained(self) -> None:
        if self._draining and not self.running_turns:
            self.end(GOING_AWAY, GOING_AWAY_TEXT)

    def _refuse_prompt(self, frame: Frame) -> bool:
        """Answer a prompt with an error; return False for another message."""
        prompt = prompt_of(frame) if b"/prompt" in frame else None
        if prompt is None:
            return False
        text = "The server is going away and starts no more turns: connect again"
        self._answer(prompt[0], text, "going_away")
        return True

    def _checked(self, first: FirstMessage, frames: Sequence[Frame]) -> list[Frame]:
        """Return the frames that the agent receives."""
        passed: list[Frame] = []
        running = self._running
        for frame in frames:
            may_initialize = not running.initialized and not running.initializing
            match first.verdict(frame, may_initialize=may_initialize):
                case "pass":
                    passed.append(frame)
                case "drop":
                    pass
                case "close":
                    loop = asyncio.get_running_loop()
                    loop.call_soon(self.end, PROTOCOL_ERROR, FIRST_TEXT)
                    break
                case bytes() as answer:
                    self._send(answer)
        return passed

    def _answer(self, request_id: Any, text: str, kind: str) -> None:
        error = {"code": -32603, "message": text, "data": {"kind": kind}}
        self._send(lenient_json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))

    def _send(self, frame: Frame) -> None:
        self.sent.add([frame])
        self._inner.write([frame])

    # Turns, traffic and time.

    def _turn_started(self, turn: Turn) -> None:
        self.turns += 1
        for observer in self._observers:
            observer.turn_started(self, turn)

    def _turn_ended(self, turn: Turn) -> None:
        for observer in self._observers:
            observer.turn_ended(self, turn)
        if self._draining and not self._has_ended:
            asyncio.get_running_loop().call_soon(self._end_if_drained)

    def _note_activity(self) -> None:
        self._active_at = asyncio.get_running_loop().time()

    def _end_stall(self) -> None:
        if self._stalled_at is not None:
            duration_s = asyncio.get_running_loop().time() - self._stalled_at
            self._stalled_at = None
            for observer in self._observers:
                observer.stalled(self, duration_s)

    def _wait_until_idle(self) -> None:
        """Check later whether the connection is idle: there is no timer for each message."""
        if self._idle_s <= 0 or self._has_ended:
            return
        loop = asyncio.get_running_loop()
        left_s = self._active_at + self._idle_s - loop.time()
        if self.running_turns:
            left_s = self._idle_s
        elif left_s <= 0:
            self.end(1000, IDLE_TEXT)
            return
        self._idle_timer = loop.call_later(left_s, self._wait_until_idle)

    def _stop_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


# Finds out from the frames of a connection which turns are running.

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


# What a WebSocket connection begins with: `initialize`, once (R-WS-02, R-WS-06).

# A proxy is initialized by the second, in the Rust SDK by the third.
INITIALIZE: tuple[str, ...] = ("initialize", "proxy/initialize", "_proxy/initialize")

# A frame is passed on, dropped, or answered with another one; or the connection is closed.
Verdict: TypeAlias = Literal["pass", "drop", "close"] | bytes


class _Head(Struct):
    id: Any = UNSET
    method: Any = UNSET


_head = msgspec.json.Decoder(_Head)


class FirstMessage:
    """Decides about the frames of one client."""

    def __init__(self) -> None:
        self._has_begun = False

    def verdict(self, frame: Frame, *, may_initialize: bool) -> Verdict:
        """Return what to do with a frame; a second `initialize` needs `may_initialize`."""
        if self._has_begun and (may_initialize or b"initialize" not in frame):
            return "pass"
        try:
            head = _head.decode(frame)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return "pass"  # the agent answers it
        is_initialize = head.method in INITIALIZE
        if self._has_begun:
            return _answer(head.id) if is_initialize and head.id is not UNSET else "pass"
        if head.method is UNSET:
            return "drop"  # a stray response
        if not is_initialize or head.id is UNSET or head.id is None:
            return "close"
        self._has_begun = True
        return "pass"


def _answer(request_id: Any) -> bytes:
    error = {"code": -32600, "message": "The connection is already initialized"}
    return lenient_json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})
