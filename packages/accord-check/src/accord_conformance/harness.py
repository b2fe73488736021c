"""The common part of all runs: raw connections, scenarios, and what remains of a process.

`RawConnection` is a connection to an agent or a client whose messages are judged as they arrive;
`RawHop` is a connection of a chain, whose messages are only recorded. Both send any bytes and wait
for conditions. A `Scenario` is what a run plays on them: `scenario` makes one of a function.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import ConnectionLost
from accord.text import lenient_json
from accord.text.excerpt import excerpt, visible
from accord.text.lenient_json import is_object
from accord.text.redact import is_secret_name
from accord.text.secrets import redacted_text
from accord.transports.base import Frame as Bytes
from accord.transports.base import Transport
from accord.transports.process import ProcessTransport
from accord.transports.process_group import exit_text
from accord_conformance.judges.base import Evidence, frames_from
from accord_conformance.judges.observer import Observer
from accord_conformance.traffic import recording
from accord_conformance.traffic.message import (
    Frame,
    Medium,
    Notification,
    RawMessage,
    Request,
    Side,
    other,
    parse_frame,
)

# How the process under test exited, and its last lines on stderr, without secrets.

_STDERR_LINES = 20  # an error may be above a stack trace
_STDERR_CHARACTERS = 200
_SHORTEST_SECRET = 4  # characters; shorter values occur in other words, too


class SecretMask:
    """Replaces secrets by their names: those in `env` and in the environment of this process."""

    def __init__(self, env: Mapping[str, str]) -> None:
        secret = {name: value for name, value in os.environ.items() if is_secret_name(name)}
        named = {value: f"${name}" for name, value in {**secret, **env}.items()}
        self._names = {
            value: named[value]
            for value in sorted(named, key=len, reverse=True)
            if len(value) >= _SHORTEST_SECRET
        }

    def __call__(self, text: str) -> str:
        """Return a text without secrets, with control characters escaped."""
        for value, name in self._names.items():
            text = text.replace(value, name)
        return visible(redacted_text(text))


async def exit_error(transport: Transport) -> Exception | None:
    """Return how the peer exited, with its whole stderr: `SecretMask` names the secrets in it."""
    error = await transport.exit_error()
    if isinstance(error, ConnectionLost) and isinstance(transport, ProcessTransport):
        error.stderr = transport.stderr_tail
    return error


def describe_exit(lost: Exception | None) -> str:
    """Describe how a process exited; empty if that is not known."""
    if not isinstance(lost, ConnectionLost) or lost.exit_status is None:
        return ""
    return f"it {exit_text(lost.exit_status)}"


def last_stderr_lines(lost: Exception | None, mask: SecretMask) -> list[str]:
    """Return the last lines that a process wrote to stderr."""
    if not isinstance(lost, ConnectionLost) or not lost.stderr:
        return []
    # Before the text is shortened: a part of a secret has to be hidden, too.
    lines = [line.rstrip() for line in mask(lost.stderr).splitlines() if line.strip()]
    return [excerpt(line, _STDERR_CHARACTERS) for line in lines[-_STDERR_LINES:]]


# A connection to the program under test: raw messages, all of them observed.

# Handles a request of the peer with `respond` or `respond_error`, at once, later or never.
RequestHandler: TypeAlias = Callable[[Request], None]

RESPONSE_S = 10.0
_LAST_FRAMES = 5  # frames to show before a disconnect
_MOMENT_S = 0.5  # for a message that should come at once
_MIN_S = 3.0  # for a response, after another request got none
_SLOWER = 10  # times its slowest response


class NoResponse(Exception):
    """A message did not arrive in time, or the peer disconnected."""


class NoSessionResponse(NoResponse):
    """A request that opens a session got no response."""


class RawConnection:
    """One connection, in which this program is the `side`.

    Nothing is validated: `send` takes any bytes. Requests of the peer are passed to `on_request`,
    its notifications to `on_notification`. The observer judges only the peer: this program breaks
    rules on purpose.

    A response may take `answer_s` seconds, and `start_s` before the first message of the peer: its
    program may still be loading. After a request without a response, the limit is lower and depends
    on the slowest response so far.

    `kit_errors` has the tracebacks of errors in the kit, which are not the fault of the peer.
    """

    def __init__(
        self,
        transport: Transport,
        side: Side,
        *,
        answer_s: float = RESPONSE_S,
        start_s: float = 0.0,
    ) -> None:
        self.side: Side = side
        self.observer = Observer(only=other(side))
        self.requests: list[Request] = []  # of the peer
        self.notifications: list[Notification] = []  # of the peer
        self.noise: list[str] = []  # lines of the peer that are not JSON
        self.is_closed = False
        self.close_error: Exception | None = None
        self.kit_errors: list[str] = []
        self.on_request: RequestHandler = lambda call: self.respond_error(
            call, -32601, "Method not found"
        )
        self.on_notification: Callable[[Notification], None] = lambda _: None
        self.answer_s = answer_s
        self._start_s = start_s
        self._transport = transport
        self._began = time.monotonic()
        self._last_id = 0
        self._slowest_s = 0.0  # of all responses
        self._timeouts = 0
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Start the transport; raise `TransportError`."""
        await self._transport.start(self)

    async def aclose(self) -> None:
        """Disconnect, which stops a program that was started for this connection."""
        self.observer.end(self.side)
        await self._transport.aclose()

    async def exit_error(self) -> Exception | None:
        """Return how the peer exited, after a disconnect; takes about a second at most."""
        return await exit_error(self._transport)

    # Sending.

    def send(self, frame: bytes) -> Frame:
        """Send a frame as it is; return it for reports."""
        self._observe(self.side, frame)
        self._transport.write([frame])
        return self.observer.state.frames[-1]

    def send_message(self, **fields: Any) -> Frame:
        """Send a message with these fields."""
        return self.send(msgspec.json.encode({"jsonrpc": "2.0", **fields}))

    def send_notification(self, method: str, params: Any = None) -> Frame:
        """Send a notification."""
        return self.send_message(method=method, **({} if params is None else {"params": params}))

    def send_request(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request; its `response` is set when it arrives."""
        if ident is None:
            self._last_id += 1
            ident = self._last_id
        self.send_message(id=ident, method=method, **({} if params is None else {"params": params}))
        call = self.observer.state.find_request(self.side, ident)
        assert call is not None
        return call

    def respond(self, call: Request, result: Any) -> None:
        """Send a result for a request of the peer."""
        self.send_message(id=call.id, result=result)

    def respond_error(self, call: Request, code: int, message: str, data: Any = None) -> None:
        """Send an error for a request of the peer."""
        error = {"code": code, "message": message}
        self.send_message(id=call.id, error=error if data is None else {**error, "data": data})

    # Waiting.

    async def call(self, method: str, params: Any = None, *, ident: Any = None) -> Request:
        """Send a request and return it with its response; raise `NoResponse`."""
        call = self.send_request(method, params, ident=ident)
        await self.wait_for_response(call)
        return call

    async def wait_for_response(self, call: Request, *, within_s: float | None = None) -> None:
        """Wait for the response to a request; raise `NoResponse`."""
        began = time.monotonic()
        try:
            await self.wait_until(
                lambda: call.response is not None, f"response to {call.method}", within_s=within_s
            )
        except NoResponse:
            self._timeouts += 1
            raise
        self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    async def wait_soon(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition that has to hold at once; raise `NoResponse`.

        The response to a second request shows that the peer has read the first; then little time
        is left.
        """
        began = time.monotonic()
        after = self.send_request("_accord/settle", {})
        await self.wait_until(lambda: holds() or after.response is not None, what)
        if not holds():
            took_s = time.monotonic() - began
            await self.wait_until(
                holds, what, within_s=min(self.answer_s, max(_MOMENT_S, 4 * took_s))
            )

    async def wait_until(
        self, holds: Callable[[], bool], what: str, *, within_s: float | None = None
    ) -> None:
        """Wait for a condition, which only a message can make true; raise `NoResponse`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s() if within_s is None else within_s):
                while not holds():
                    if self.is_closed:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        if not holds():
            raise NoResponse(f"no {what}" + (": the peer disconnected" if self.is_closed else ""))

    def _timeout_s(self) -> float:
        silent = not any(frame.sender != self.side for frame in self.observer.state.frames)
        if silent:
            return max(self.answer_s, self._start_s)
        if self._timeouts:
            return min(self.answer_s, max(_MIN_S, _SLOWER * self._slowest_s))
        return self.answer_s

    def unread(self, first: int = 0) -> tuple[Frame, ...]:
        """Return the frames sent since the last request that the peer answered, without requests
        that only ask for a sign of life.

        The peer has read all earlier ones and survived them. `first` is the number of frames that
        are left out at the beginning.
        """
        frames = self.observer.state.frames
        answered = [
            call.frame.number
            for call in self.observer.state.requests
            if call.sender == self.side and call.response is not None
        ]
        since = max(answered, default=0)
        probes = (b'"_accord/', b'"$/')
        return tuple(
            frame
            for frame in frames[first:]
            if frame.sender == self.side
            and frame.number > since
            and not any(frame.text.find(b'"method":' + name) > 0 for name in probes)
        )

    def last_sent(self) -> tuple[Frame, ...]:
        """Return the frames sent since the peer's last frame, or the last one."""
        frames = self.observer.state.frames
        since = max((frame.number for frame in frames if frame.sender != self.side), default=0)
        sent = [frame for frame in frames if frame.sender == self.side]
        return tuple([frame for frame in sent if frame.number > since][-_LAST_FRAMES:] or sent[-1:])

    async def sync(self) -> None:
        """Wait for the response to a harmless request: then the peer has read all earlier messages.

        For messages that must not be answered. An agent rejects the method, which is not judged.
        """
        with suppress(NoResponse):
            await self.call("_accord/settle", {})

    # Calls of the transport.

    def frames_received(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            self._received(bytes(frame))
        self._changed.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.noise.append(f"a frame of more than {limit} bytes")
        self._changed.set()

    def eof_received(self, error: Exception | None) -> None:
        self.is_closed = True
        self.close_error = error
        self.observer.end(other(self.side))
        self._changed.set()

    def writable(self) -> None:
        return

    def noise_received(self, text: str) -> None:
        """The peer wrote a line that is not JSON."""
        self.noise.append(text)
        self._observe(other(self.side), text.encode())
        self._changed.set()

    def _observe(self, side: Side, text: bytes) -> None:
        self.observer.receive(side, text, self._now())

    def record_kit_error(self) -> None:
        """Record the exception that is being handled as an error in the kit."""
        self.kit_errors.append(traceback.format_exc())

    def _received(self, text: bytes) -> None:
        try:
            self._dispatch(text)
        except Exception:  # noqa: BLE001  # an error in a handler
            self.record_kit_error()

    def _dispatch(self, text: bytes) -> None:
        peer: Side = other(self.side)
        self._observe(peer, text)
        match parse_frame(Frame(0, 0.0, peer, text)):
            case RawMessage(fields=fields) as raw if not raw.is_response:
                if "id" in fields:
                    if (call := self.observer.state.find_request(peer, fields["id"])) is not None:
                        self.requests.append(call)
                        self._serve(call)
                else:
                    params = fields.get("params")
                    frame = self.observer.state.frames[-1]
                    params = params if lenient_json.is_object(params) else {}
                    note = Notification(frame, peer, fields["method"], params)
                    self.notifications.append(note)
                    self.on_notification(note)
            case _:
                pass

    def _serve(self, call: Request) -> None:
        try:
            self.on_request(call)
        except Exception:  # noqa: BLE001  # the peer gets a response in any case
            self.record_kit_error()
            if call.response is None:
                self.respond_error(call, -32603, "Error in the conformance kit")

    def _now(self) -> float:
        return time.monotonic() - self._began


# A hop of a chain: raw messages to and from one component, none of them judged or interpreted.

# The bytes of a field, or UNSET if the message does not have it.
Field: TypeAlias = Raw | UnsetType


class _Fields(Struct):
    id: Field = UNSET
    method: str | UnsetType = UNSET
    params: Field = UNSET
    result: Field = UNSET
    error: Field = UNSET


class HopMessage(Struct, eq=False):
    """A message of a component: its fields as the bytes that were received."""

    frame: Frame
    id: Field
    method: str | UnsetType
    params: Field
    result: Field
    error: Field

    @property
    def is_response(self) -> bool:
        """Whether it is a response."""
        return self.method is UNSET

    @property
    def code(self) -> Any:
        """The code of the error, if it has one."""
        error = decoded(self.error)
        return error.get("code") if is_object(error) else None


_decoder = msgspec.json.Decoder(_Fields)


class Tape:
    """The frames of all hops of a chain, in the order in which they were sent or received."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._began = time.monotonic()
        self._changed = asyncio.Event()

    def record(self, sender: Side, text: bytes) -> Frame:
        """Add a frame."""
        frame = Frame(len(self.frames) + 1, time.monotonic() - self._began, sender, bytes(text))
        self.frames.append(frame)
        return frame

    def notify(self) -> None:
        """Let `wait_until` look again."""
        self._changed.set()

    async def wait_until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition, which only a message can make true; return whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        return holds()


class RawHop:
    """The kit's end of the connection to one component.

    `on_message` gets every message. `faults` are all other lines.
    """

    def __init__(self, transport: Transport, tape: Tape, me: Side, peer: Side) -> None:
        self.tape = tape
        self.me: Side = me
        self.peer: Side = peer
        self.faults: list[Frame] = []
        self.is_closed = False
        self.close_error: Exception | None = None
        self.on_message: Callable[[HopMessage], None] = lambda _: None
        self._transport = transport

    async def open(self) -> None:
        """Start the transport; raise `TransportError`."""
        await self._transport.start(self)

    async def aclose(self) -> None:
        """Disconnect, which stops a program that was started for this connection."""
        await self._transport.aclose()

    async def exit_error(self) -> Exception | None:
        """Return how the peer exited, after a disconnect; takes about a second at most."""
        return await exit_error(self._transport)

    def send(self, text: bytes) -> Frame:
        """Send a frame as it is."""
        frame = self.tape.record(self.me, text)
        self._transport.write([text])
        return frame

    def send_message(self, **fields: bytes) -> Frame:
        """Send a message with these fields, each as JSON text."""
        members = b",".join(b'"%s":%s' % (name.encode(), text) for name, text in fields.items())
        return self.send(b'{"jsonrpc":"2.0",%s}' % members)

    def send_unrecorded(self, text: bytes) -> None:
        """Send a frame that is too large for a report."""
        self._transport.write([text])

    @property
    def is_congested(self) -> bool:
        """Whether the peer reads slower than the kit writes."""
        return self._transport.congested

    def pause_reading(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._transport.resume_reading()

    async def wait_until(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait for a condition, which only a message can make true; raise `NoResponse`."""
        await self.tape.wait_until(lambda: holds() or self.is_closed, within_s)
        if not holds():
            raise NoResponse(
                f"no {what}" + (f": the {self.peer} disconnected" if self.is_closed else "")
            )

    # Calls of the transport.

    def frames_received(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            if text := bytes(frame).strip():
                self._received(text)
        self.tape.notify()

    def _received(self, text: bytes) -> None:
        frame = self.tape.record(self.peer, text)
        try:
            fields = _decoder.decode(text)
        except msgspec.DecodeError:
            self.faults.append(frame)
            return
        if fields.method is UNSET and fields.result is UNSET and fields.error is UNSET:
            self.faults.append(frame)
            return
        self.on_message(
            HopMessage(frame, fields.id, fields.method, fields.params, fields.result, fields.error)
        )

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.faults.append(self.tape.record(self.peer, bytes(head)))
        self.tape.notify()

    def eof_received(self, error: Exception | None) -> None:
        self.is_closed = True
        self.close_error = error
        self.tape.notify()

    def writable(self) -> None:
        self.tape.notify()

    def noise_received(self, text: str) -> None:
        """The peer wrote a line that is not JSON."""
        self.faults.append(self.tape.record(self.peer, text.encode()))
        self.tape.notify()


def decoded(field: Field) -> Any:
    """Return the value of a field; None if it is absent."""
    return None if field is UNSET else msgspec.json.decode(field)


def encoded(value: Any) -> bytes:
    """Return a value as JSON text."""
    return msgspec.json.encode(value)


# A scenario: what the kit does with the program under test, and the rules that it judges.

ALL_MEDIA: tuple[Medium, ...] = ("stdio", "websocket", "http")

ContextT = TypeVar("ContextT")


class NotExercised(Exception):
    """The rules of a scenario were not exercised; the text is the reason."""


class LoginRequired(NotExercised):
    """The scenario requires a login."""


class PromptFailed(NotExercised):
    """The agent refused a plain prompt, or failed to work on it."""


class Advisory(Exception):
    """The program did something harmful that no rule forbids: a text and advice for its author.

    With `is_failure` the run fails. `seen` are the messages that show it.
    """

    def __init__(self, what: str, advice: str, *seen: Evidence, is_failure: bool = False) -> None:
        super().__init__(what)
        self.advice = advice
        self.is_failure = is_failure
        self.frames = frames_from(*seen)


class Scenario(Struct, Generic[ContextT], frozen=True, kw_only=True):
    """A scenario; an isolated one gets connections of its own.

    `rules` are those that `run` judges; the observer judges all messages in addition. `media` are
    the transports over which it can run.
    """

    name: str
    about: str
    run: Callable[[ContextT], Awaitable[None]]
    rules: tuple[str, ...] = ()
    versions: tuple[int, ...] = (1, 2)
    isolated: bool = False
    media: tuple[Medium, ...] = ALL_MEDIA

    @property
    def area(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]


def scenario(
    name: str,
    *rules: str,
    versions: tuple[int, ...] = (1, 2),
    isolated: bool = False,
    media: tuple[Medium, ...] = ALL_MEDIA,
) -> Callable[[Callable[[Any], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function, whose docstring is its description."""

    def make(play: Callable[[Any], Awaitable[None]]) -> Scenario[Any]:
        about = (play.__doc__ or "").strip()
        return Scenario(
            name=name,
            about=about,
            run=play,
            rules=rules,
            versions=versions,
            isolated=isolated,
            media=media,
        )

    return make


# The frames of a connection as a file for `accord check trace`.

PRIVATE = 0o600  # the mode of a trace file


def write_trace(folder: Path, name: str, line: RawConnection) -> Path:
    """Write the frames of a connection into a folder; return the file.

    Only the user can read the file: frames contain prompts, file contents and secrets.
    """
    return _write(folder, name, trace_bytes(line))


def write_frames(folder: Path, name: str, frames: Iterable[Frame]) -> Path:
    """Write frames of all hops into a folder; return the file, which only the user can read."""
    rows = (recording.write(frame.time, frame.sender, frame.text) for frame in frames)
    return _write(folder, name, b"".join(rows))


def _write(folder: Path, name: str, text: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name.replace("/", "-") + ".ndjson")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        path.chmod(PRIVATE)  # of an existing file
        file.write(text)
    return path


def trace_bytes(line: RawConnection) -> bytes:
    """Return the frames of a connection in the format of a file; the peer is judged."""
    frames = line.observer.state.frames
    rows = (recording.write(frame.time, frame.sender, frame.text) for frame in frames)
    return b"".join((recording.write_judged_side(other(line.side)), *rows))
