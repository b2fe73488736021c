"""A transport to an agent that survives the loss of its connection, for clients that do not.

It knows only what connects again: `initialize`, the last login, the sessions that were opened, and
the requests without an answer. It cannot tell what of a replay is new: sessions are resumed without
one, and a replay that the agent sends anyway is dropped. `accord.connect(reconnect=…)` continues
transcripts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import ConnectionLost, ConnectionRefused, TransportError
from accord.text import lenient_json
from accord.transports.base import (
    Frame,
    NullReceiver,
    Receiver,
    Transport,
    TransportFactory,
    opened,
)
from accord.transports.http_messages import (
    OPENS_SESSION,
    REATTACHES,
    error_frame,
    read_incoming,
    read_outgoing,
    session_of_result,
    version_of,
)
from accord.transports.registry import ConnectionChange, Reconnect, Waits

log: logging.Logger = logging.getLogger("accord.transports.reconnecting")

ANSWER_S = 60.0  # for `initialize`, and for opening each session
_ENDS_SESSION = frozenset(("session/close", "session/delete", "session/archive"))
_LOGINS = frozenset(("authenticate", "auth/login"))
_LOGOUTS = frozenset(("logout", "auth/logout"))
_KEPT = OPENS_SESSION | REATTACHES | _LOGINS | {"initialize"}
_STATE = b'"state_update"'
_ENDED = "The server has ended the connection"
# The updates of a session that are not its history.
_SETTINGS = frozenset(
    (
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "state_update",
        "usage_update",
    )
)


class _Request(Struct):
    """A request without an answer; `frame` is kept if it must be repeated."""

    method: str
    session: str | None
    frame: Frame | None


class ReconnectingTransport(Transport):
    """Carries frames to an agent by one connection after another.

    When a connection is lost, requests in progress are answered with an error, the agent's own are
    cancelled, and new frames wait. On the next connection `initialize` is sent again, and the
    sessions are resumed or loaded (R-WS-17); if the agent requires a login for that, the client's
    last one is sent again, once (R-AUTH-12). A loss before `initialize` has succeeded ends it.
    """

    def __init__(self, connect: TransportFactory, settings: Reconnect) -> None:
        self._connect = connect
        self._settings = settings
        self._receiver: Receiver = NullReceiver()
        self._current: _Connection | None = None
        self._paused = False
        self._closed = False
        self._waiting: list[Frame] = []
        self._task: asyncio.Task[None] | None = None
        self._initialize: tuple[Frame, Raw] | None = None  # the last one, and its result
        self._requests: dict[bytes, _Request] = {}  # of the client, by id
        self._login: _Request | None = None  # the last one that succeeded
        self._sessions: dict[str, Frame] = {}  # with the request that opened each
        self._busy: set[str] = set()  # sessions of version 2 that are not idle
        # The agent's requests without an answer: the id that the client sees, and the agent's.
        self._asked: dict[bytes, bytes] = {}
        self._count = 0  # of connections after the first, and of renamed requests

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._waits = Waits(self._settings, asyncio.get_running_loop().time)
        self._current = await self._next_connection()

    async def _next_connection(self) -> _Connection:
        connection = _Connection(self, await opened(self._connect))
        self.frame_bytes: int = connection.transport.frame_bytes
        await connection.transport.start(connection)
        return connection

    @property
    def congested(self) -> bool:
        if self._current is None:
            return not self._closed
        return self._current.transport.congested

    def pause_reading(self) -> None:
        self._paused = True
        if self._current is not None:
            self._current.transport.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._current is not None:
            self._current.transport.resume_reading()

    async def aclose(self) -> None:
        self._closed = True
        self._receiver = NullReceiver()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._current is not None:
            await self._current.transport.aclose()

    # From the client to the agent.

    def write(self, frames: Sequence[Frame]) -> None:
        if self._closed:
            return
        if self._current is None:
            self._waiting += frames
            return
        sent = [frame for frame in map(self._note_sent, frames) if frame is not None]
        self._current.transport.write(sent)

    def _note_sent(self, frame: Frame) -> Frame | None:
        """Note a message of the client; return it as the agent must see it, None to drop it."""
        message = read_outgoing(frame)
        if message.kind == "answer" and message.id is not None:
            original = self._asked.pop(message.id, None)
            if original is None:
                return None  # of a request on an earlier connection
            return frame if original == message.id else with_id(frame, original)
        if message.kind == "request" and message.id is not None:
            kept = bytes(frame) if message.method in _KEPT else None
            self._requests[message.id] = _Request(message.method, message.session, kept)
        return frame

    # From the agent to the client: called by the connections.

    def passes_on(self, connection: _Connection) -> bool:
        """Return whether frames of this connection go to the client."""
        return connection is self._current

    def received(self, frames: Sequence[Frame]) -> None:
        """Pass on the frames of the current connection."""
        passed = [self._note_received(frame) for frame in frames]
        if passed:
            self._receiver.frames_received(passed)

    def _note_received(self, frame: Frame) -> Frame:
        if _STATE in frame:
            self._note_state(frame)
        if self._count and b"$/cancel_request" in frame:
            frame = self._with_renamedcancel_frame(frame)
        incoming = read_incoming(frame)
        if incoming is None or incoming.id is None:
            return frame
        if incoming.method is not None:
            return self._note_asked(frame, incoming.id)
        request = self._requests.pop(incoming.id, None)
        if request is not None and incoming.body is not None:
            self._note_result(request, incoming.body)
        return frame

    def _note_asked(self, frame: Frame, request_id: bytes) -> Frame:
        """Note a request of the agent; rename it if an earlier connection may have used its id."""
        if not self._count:
            self._asked[request_id] = request_id
            return frame
        self._count += 1
        renamed = b'"again-%d"' % self._count
        self._asked[renamed] = request_id
        return with_id(frame, renamed)

    def _with_renamedcancel_frame(self, frame: Frame) -> Frame:
        cancelled = read_outgoing(frame).cancels
        for renamed, original in self._asked.items():
            if original == cancelled:
                return cancel_frame(renamed)
        return frame

    def _note_result(self, request: _Request, result: Raw) -> None:
        method, session = request.method, request.session
        if method == "initialize" and request.frame is not None:
            if version_of(result) is not None:
                self._initialize = (request.frame, Raw(bytes(result)))
        elif method in _LOGINS:
            self._login = request
        elif method in _LOGOUTS:
            self._login = None
        elif method in OPENS_SESSION and request.frame is not None:
            if (new := session_of_result(result)) is not None:
                self._sessions[new] = request.frame
        elif method in REATTACHES and session is not None and request.frame is not None:
            self._sessions[session] = request.frame
        elif method in _ENDS_SESSION and session is not None:
            self._sessions.pop(session, None)
            self._busy.discard(session)

    def _note_state(self, frame: Frame) -> None:
        params = read_update(frame)
        if params is None or params.update is None or params.session_id is None:
            return
        if params.update.session_update == "state_update":
            if params.update.state == "idle":
                self._busy.discard(params.session_id)
            else:
                self._busy.add(params.session_id)

    def refused(self, limit: int, head: bytes) -> None:
        """Report a frame over the limit."""
        self._receiver.frame_refused(limit, head)

    def writable(self) -> None:
        """Report that the current connection is no longer congested."""
        self._receiver.writable()

    # The loss of a connection.

    def lost(self, connection: _Connection, loss: TransportError) -> None:
        """Fail what was in progress, and connect again."""
        if self._closed:
            return
        if self._initialize is None:
            self._receiver.eof_received(loss)
            return
        self._current = None
        self._waits.lost()
        why = f"{loss}; the request was not sent again"
        failed = [error_frame(each, why, {"kind": "connection"}) for each in self._requests]
        failed += map(cancel_frame, self._asked)
        self._requests.clear()
        self._asked.clear()
        if failed:
            self._receiver.frames_received(failed)
        self._task = asyncio.create_task(self._run(connection, loss), name="accord reconnect")

    async def _run(self, lost: _Connection, loss: TransportError) -> None:
        try:
            await lost.transport.aclose()
            error = await self._reconnect(loss)
        except Exception as exc:
            log.exception("! reconnecting failed")
            error = ConnectionLost(f"Reconnecting failed: {exc!r}")
        if error is not None:
            self._report("lost", error, 0, 0.0)
            self._receiver.eof_received(error)

    async def _reconnect(self, loss: TransportError) -> ConnectionLost | None:
        """Connect again; return the error if all attempts fail."""
        last: Exception = loss
        for attempt in range(1, self._settings.attempts + 1):
            wait_s = self._waits.next()
            self._report("reconnecting", last, attempt, wait_s)
            await asyncio.sleep(wait_s)
            connection: _Connection | None = None
            try:
                connection = await self._next_connection()
                await self._open_again(connection, loss)
            except (TransportError, TimeoutError) as error:
                if isinstance(error, ConnectionRefused) and error.is_final:
                    return ConnectionLost(f"{loss}; {error}")
                last = error
            else:
                self._waits.connected()
                self._report("connected", None, attempt, 0.0)
                return None
            finally:
                if connection is not None and not self.passes_on(connection):
                    await connection.transport.aclose()
        return ConnectionLost(
            f"{loss}; the connection could not be established again in "
            f"{self._settings.attempts} attempts, the last one failed: "
            f"{str(last) or type(last).__name__}"
        )

    def _report(
        self,
        state: Literal["reconnecting", "connected", "lost"],
        error: Exception | None,
        attempt: int,
        wait_s: float,
    ) -> None:
        change = ConnectionChange(state=state, error=error, attempt=attempt, wait_s=wait_s)
        log.info("= connection: %s", change)
        if self._settings.on_change is not None:
            self._settings.on_change(change)

    async def _open_again(self, connection: _Connection, loss: TransportError) -> None:
        """Send `initialize` and open the sessions; then pass frames on again."""
        assert self._initialize is not None, "there is no reconnecting before"
        request, before = self._initialize
        result = await connection.request("initialize", params_of(request))
        if result is None or version_of(result) != version_of(before):
            raise TransportError("The agent refuses `initialize` on the new connection")
        method = opening_method(result)
        for session, opening in list(self._sessions.items()) if method is not None else ():
            assert method is not None
            params = reopening_params(opening, session)
            connection.replayed = session
            result = await connection.request(method, params)
            if result is None and await self._logs_in(connection):
                connection.replayed = session
                result = await connection.request(method, params)
            if result is None:
                log.warning("! a session could not be opened again")
        self._current = connection
        self._count += 1
        ended = self._ended_turns(connection.held, loss)
        self.received([*connection.held, *ended])
        connection.held.clear()
        if self._paused:
            connection.transport.pause_reading()
        waiting, self._waiting = self._waiting, []
        self.write(waiting)
        if not self.congested:
            self._receiver.writable()

    async def _logs_in(self, connection: _Connection) -> bool:
        """Repeat the client's login if the agent has just required one, at most once."""
        login = self._login
        if login is None or login.frame is None or not connection.requires_login:
            return False
        if connection.has_login is None:
            result = await connection.request(login.method, params_of(login.frame))
            connection.has_login = result is not None
            if result is None:
                log.warning("! the agent does not accept the login again")
        return connection.has_login

    def _ended_turns(self, held: Sequence[Frame], loss: TransportError) -> list[Frame]:
        """Return the end of each version 2 turn whose state the agent has not reported again."""
        reported = {
            params.session_id
            for frame in held
            if _STATE in frame and (params := read_update(frame)) is not None
        }
        error = {"code": -32603, "message": str(loss)}
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "error"}
        return [
            request_frame(
                "session/update",
                lenient_json.dumps({"sessionId": session, "update": {**idle, "error": error}}),
            )
            for session in self._busy - reported
        ]


class _Connection:
    """One connection; it receives the answers to the requests of the transport itself."""

    def __init__(self, owner: ReconnectingTransport, transport: Transport) -> None:
        self.transport = transport
        self.replayed: str | None = None  # the session whose history is dropped
        self.requires_login: bool = False  # by the error of the last request
        self.has_login: bool | None = None  # whether the login was accepted again
        self.held: list[Frame] = []  # for the client, until the sessions are open
        self._owner = owner
        self._requests: dict[bytes, asyncio.Future[Raw | None]] = {}
        self._ended: TransportError | None = None

    async def request(self, method: str, params: bytes) -> Raw | None:
        """Send a request; return its result, None for an error."""
        if self._ended is not None:
            raise self._ended
        request_id = b'"accord-%d"' % len(self._requests)
        answer: asyncio.Future[Raw | None] = asyncio.get_running_loop().create_future()
        self._requests[request_id] = answer
        self.transport.write([request_frame(method, params, request_id)])
        async with asyncio.timeout(ANSWER_S):
            return await answer

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._owner.passes_on(self):
            self._owner.received(frames)
            return
        for frame in frames:
            incoming = read_incoming(frame)
            if incoming is not None and incoming.id is not None and incoming.method is None:
                answer = self._requests.get(incoming.id)
                if answer is not None and not answer.done():
                    self.requires_login = incoming.body is None and requires_login(frame)
                    answer.set_result(incoming.body)
                    self.replayed = None  # what follows is new
            elif not self._is_replay(frame):
                self.held.append(frame)

    def _is_replay(self, frame: Frame) -> bool:
        params = read_update(frame)
        if params is None or params.update is None or params.session_id != self.replayed:
            return False
        return params.update.session_update not in _SETTINGS

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        if self._owner.passes_on(self):
            self._owner.refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        self._ended = error if isinstance(error, TransportError) else ConnectionLost(_ENDED)
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(self._ended)
        if self._owner.passes_on(self):
            self._owner.lost(self, self._ended)

    def writable(self) -> None:
        if self._owner.passes_on(self):
            self._owner.writable()


# What reconnecting must know of messages, and the messages that it sends itself.


class _Message(Struct, gc=False):
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Update(Struct, rename="camel", gc=False):
    session_update: str | None = None
    state: str | None = None


class _Notification(Struct, rename="camel", gc=False):
    session_id: str | None = None
    update: _Update | None = None


class _Params(Struct, gc=False):
    params: _Notification | None = None


class _Session(Struct, gc=False):
    resume: Any = None


class _Capabilities(Struct, rename="camel", gc=False):
    load_session: Any = False
    session_capabilities: _Session | None = None


class _Error(Struct, gc=False):
    code: Any = None


class _Failed(Struct, gc=False):
    error: _Error | None = None


class _Initialized(Struct, rename="camel", gc=False):
    protocol_version: Any = None
    agent_capabilities: _Capabilities | None = None


_read = msgspec.json.Decoder(_Message).decode
_read_params = msgspec.json.Decoder(_Params).decode
_read_failed = msgspec.json.Decoder(_Failed).decode
_read_initialized = msgspec.json.Decoder(_Initialized).decode
AUTH_REQUIRED = -32000
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def opening_method(result: Raw) -> str | None:
    """Return the method that opens a session again, preferably without a replay.

    `result` is that of `initialize`. Return None if the agent offers none.
    """
    try:
        initialized = _read_initialized(result)
    except _MALFORMED:
        return None
    if initialized.protocol_version == 2:
        return "session/resume"
    offered = initialized.agent_capabilities or _Capabilities()
    if offered.session_capabilities is not None and offered.session_capabilities.resume is not None:
        return "session/resume"
    return "session/load" if offered.load_session is True else None


def requires_login(response: Frame) -> bool:
    """Return whether a response is the error `auth_required` (R-AUTH-12)."""
    try:
        error = _read_failed(response).error
    except _MALFORMED:
        return False
    return error is not None and error.code == AUTH_REQUIRED


def reopening_params(opening: Frame, session: str) -> bytes:
    """Return the params that open a session again, from the request that opened it."""
    params = lenient_json.loads(params_of(opening))
    params.pop("replayFrom", None)
    return lenient_json.dumps({**params, "sessionId": session})


def params_of(frame: Frame) -> bytes:
    """Return the params of a message as JSON text."""
    params = _read(frame).params
    return b"{}" if params is UNSET else bytes(params)


def request_frame(method: str, params: bytes, request_id: bytes | None = None) -> bytes:
    """Return a request, or a notification if there is no id."""
    name = lenient_json.dumps(method)
    if request_id is None:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (name, params)
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (request_id, name, params)


def cancel_frame(request_id: bytes) -> bytes:
    """Return the notification that cancels a request."""
    return request_frame("$/cancel_request", b'{"requestId":%b}' % request_id)


def with_id(frame: Frame, request_id: bytes) -> bytes:
    """Return a request or an answer with another id."""
    message = _read(frame)
    if message.method is not UNSET:
        return request_frame(message.method, params_of(frame), request_id)
    is_error = message.result is UNSET
    body = message.error if is_error else message.result
    text = b"null" if body is UNSET else bytes(body)
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (
        request_id,
        b"error" if is_error else b"result",
        text,
    )


def read_update(frame: Frame) -> _Notification | None:
    """Return the session, the type and the state of an update; None for any other message."""
    try:
        return _read_params(frame).params
    except _MALFORMED:
        return None
