"""One connection of a chain: messages in and out as raw JSON, with ids of its own.

`Hop` receives (`frames_received`) and sends (`send_notification`, `send_request`). The subclasses
that decide where messages go are in `conductor.py`. Notifications that were read together pass as
runs, which `RunReader` finds; at the end are the names by which messages are wrapped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.connection.limits import FloodLog
from accord.errors import FrameTooLarge, InternalError, InvalidParams, InvalidRequest, RequestError
from accord.jsonrpc.message import CancelRequest, Message, RequestId, Response, UnexpectedMessage
from accord.jsonrpc.peer import CANCEL_REQUEST, Peer
from accord.proxy.stage import (
    Direction,
    Flow,
    Params,
    Pauses,
    RawRequest,
    RawResponse,
    Run,
    raw_json,
)
from accord.text import lenient_json
from accord.transports.base import Frame, Transport
from accord.transports.stdio import PipeTransport

log: logging.Logger = logging.getLogger("accord.proxy")

# Called with the name of a hop, and with each frame that it receives or sends.
HopObserver: TypeAlias = Callable[[str, Literal["received", "sent"], Frame], None]

ANSWER_S = 0.5  # for requests in progress after the peer has disconnected
MAX_QUEUED_BYTES = 8 * 1024 * 1024  # for one hop; above it, its neighbours are not read
_MAX_UNSENDABLE = 1000  # requests that wait for the reason why the peer has ended
_MAX_SENT_HEADS = 256  # texts that begin notifications, by method
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class Hops:
    """What the connections of one chain share.

    Frames that one read results in are written together: `write_soon` collects the hops.
    """

    def __init__(
        self,
        ended: Callable[[Hop, Exception | None], None],
        observers: Sequence[HopObserver] = (),
    ) -> None:
        self.flows: dict[Direction, Flow] = {direction: Flow() for direction in Direction}
        self.ended = ended  # called once for each hop, at the end of its input
        self.observers: Sequence[HopObserver] = observers
        self.is_reading: bool = False
        self._loop = asyncio.get_running_loop()
        self.log: FloodLog = FloodLog(log, self._loop.time)
        self._unwritten: list[Hop] = []
        self._is_due = False

    def write_soon(self, hop: Hop) -> None:
        """Write the frames of a hop after the current read, or in this iteration of the loop."""
        self._unwritten.append(hop)
        if not self.is_reading and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Write all frames now."""
        self._is_due = False
        unwritten, self._unwritten = self._unwritten, []
        for hop in unwritten:
            hop.write()


class _Sent(Struct, gc=False):
    """A request that this hop has sent."""

    request: RawRequest
    to: Direction


def _encode(value: Any) -> Any:
    return value if type(value) is Raw else lenient_json.dumps(value)


def _encode_into(value: Any, text: bytearray) -> None:
    text += value if type(value) is Raw else lenient_json.dumps(value)


class Hop:
    """A connection; subclasses decide where its messages go, and how they are named on the wire.

    `on_notification`, `on_run` and `on_request` receive what the peer sends. Malformed and
    oversized frames are answered here, and nothing of them is passed on (A-123).
    """

    unwraps: bool = False  # whether the messages of one neighbour are wrapped

    def __init__(self, name: str, transport: Transport, hops: Hops) -> None:
        self.name: str = name
        self.transport: Transport = transport
        self.pauses: Pauses = Pauses(transport)
        self.neighbours: list[Pauses] = []  # that send to this hop; see MAX_QUEUED_BYTES
        self.has_ended: bool = False  # no response will come
        self._why_ended: Callable[[], RequestError] | None = None  # known later than `has_ended`
        self._unsendable: list[RawRequest] = []  # until it is known
        self.is_silent: bool = False  # no more responses are sent
        self._hops = hops
        self._peer = Peer(_encode, _encode_into, frame_bytes=transport.frame_bytes)
        self._peer.keeps_text = True
        self._received: dict[RequestId, RawRequest] = {}  # not answered yet
        self._heads: dict[str, bytes] = {}
        self._wrapped_heads: dict[str, dict[str, bytes]] = {}
        self._all_answered: asyncio.Event | None = None
        self._runs = RunReader(unwraps=self.unwraps)
        self._is_dirty = False
        self._is_congested = False
        self._queued_bytes = 0  # while the transport is congested
        self._is_over = False
        # A line ends a frame on a pipe, and is white space elsewhere.
        self._has_lines = isinstance(transport, PipeTransport)

    # To override.

    def on_notification(self, method: str, params: Params) -> None:
        """Handle a notification of the peer."""
        raise NotImplementedError

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        """Handle notifications of the peer that were read together."""
        raise NotImplementedError

    def on_request(self, request_id: RequestId, method: str, params: Params) -> None:
        """Handle a request of the peer: call `add_request`, or `fail`."""
        raise NotImplementedError

    # Start and end.

    async def start(self) -> None:
        """Start reading; raise `TransportError` if the peer cannot be reached."""
        await self.transport.start(self)

    def refuse_null_ids(self) -> None:
        """Refuse requests whose id is null from now on, as in version 2 (R-GEN-14)."""
        self._peer.null_ids = False

    def warn(self, what: str, why: object) -> None:
        """Log what the peer of this hop did wrong."""
        kind = (self.name, what)
        self._hops.log.log(logging.WARNING, "! %s: %s: %s", self.name, what, why, kind=kind)

    def fail_calls(self, error: Callable[[], RequestError]) -> None:
        """Fail all requests that this hop has sent, now and in the future.

        The peer may not have ended: its responses to them are expected, and are dropped.
        """
        calls = self._peer.calls()
        for request_id, _ in calls:
            self._peer.forget(request_id)
        self.has_ended = True  # first: the sender may send again when one fails
        self._why_ended = error
        for _, sent in calls:
            sent.request.fail(error())
        self.refuse_calls(error)

    def refuse_calls(self, error: Callable[[], RequestError]) -> None:
        """Fail the requests that this hop is to send from its end on."""
        self.has_ended = True
        self._why_ended = error
        unsendable, self._unsendable = self._unsendable, []
        for request in unsendable:
            request.fail(error())

    def fail_received(self, error: Callable[[], RequestError]) -> None:
        """Fail all requests of the peer that have no response."""
        for request in list(self._received.values()):
            request.fail(error())

    async def finish(self) -> None:
        """Give the requests of the peer, which has disconnected, some time for their responses."""
        await self.wait_answered(ANSWER_S)

    async def wait_answered(self, timeout_s: float) -> None:
        """Wait until every request of the peer has a response, at most this long."""
        if self._received:
            self._all_answered = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._all_answered.wait()

    async def aclose(self) -> None:
        """Write what is left, and close the transport."""
        self.refuse_calls(self._why_ended or self._ended_error)
        self._flush()
        await self.transport.aclose()

    def awaits(self, method: str) -> bool:
        """Return whether the peer owes the response to a request of this method."""
        return any(sent.request.method == method for _, sent in self._peer.calls())

    def has_asked(self, method: str) -> bool:
        """Return whether a request of the peer of this method has no response yet."""
        return any(request.method == method for request in self._received.values())

    # Sending.

    def send_notification(self, method: str, params: Params, to: Direction) -> None:
        """Send a notification, which is on its way `to` one end of the chain."""
        self._send_notification(self._heads, None, method, params, to)

    def send_wrapped(self, name: str, method: str, params: Params, to: Direction) -> None:
        """Send a notification in an envelope, which is a notification `name`."""
        heads = self._wrapped_heads.get(name)
        if heads is None:
            heads = self._wrapped_heads[name] = {}
        self._send_notification(heads, name, method, params, to)

    def _send_notification(
        self,
        heads: dict[str, bytes],
        envelope: str | None,
        method: str,
        params: Params,
        to: Direction,
    ) -> None:
        head = heads.get(method) or self._head(heads, envelope, method)
        tail = b"}" if envelope is None else b"}}"
        if params is UNSET:
            frame = head.removesuffix(PARAMS) + tail
        else:
            frame = b"".join((head, params, tail))
        size = len(frame)
        peer = self._peer
        if size > peer.frame_bytes:
            error = FrameTooLarge(method, size, peer.frame_bytes)
            self.warn("a notification was not passed on", error)
            return
        peer.frames.append(frame)
        self._frames_added(size, to)

    def _head(self, heads: dict[str, bytes], envelope: str | None, method: str) -> bytes:
        head = notification_head(envelope, method)
        if len(heads) < _MAX_SENT_HEADS:  # a peer can name any number of methods
            heads[method] = head
        return head

    def send_run(self, run: Run, to: Direction, *, envelope: str | None = None) -> None:
        """Send notifications that were read together, each in an envelope if one is named."""
        if envelope is None:
            head, tail = self._heads.get(run.method), b"}"
            head = head or self._head(self._heads, None, run.method)
        else:
            heads = self._wrapped_heads.setdefault(envelope, {})
            head, tail = heads.get(run.method), b"}}"
            head = head or self._head(heads, envelope, run.method)
        size = len(run.joined)
        if size + len(head) + len(tail) > self._peer.frame_bytes:  # some may be too large
            for text in run.texts:
                if envelope is None:
                    self.send_notification(run.method, Raw(text), to)
                else:
                    self.send_wrapped(envelope, run.method, Raw(text), to)
            return
        if head == run.head:
            self._peer.frames += run.frames
        else:
            self._peer.frames += [b"%b%b%b" % (head, text, tail) for text in run.texts]
        self._frames_added(size, to)

    def send_request(self, request: RawRequest, method: str, params: Params, to: Direction) -> None:
        """Send a request; its response answers `request`, whose method and params are not used."""
        if self.has_ended:
            if self._why_ended is not None:
                request.fail(self._why_ended())
            elif len(self._unsendable) >= _MAX_UNSENDABLE:
                request.fail(self._ended_error())
            else:
                self._unsendable.append(request)
            return
        try:
            request_id = self._peer.request(method, params, _Sent(request, to))
        except FrameTooLarge as exc:
            request.fail(InternalError(str(exc)))
            return
        self._frames_added(0 if params is UNSET else len(params), to)
        request.on_cancel(lambda: self._cancel_sent(request_id))

    def _ended_error(self) -> RequestError:
        return InternalError(f"{self.name} has ended")

    def _cancel_sent(self, request_id: RequestId) -> None:
        """Cancel by the id of this hop; ids of other hops mean nothing here (R-REQCAN-11)."""
        self._peer.cancel(request_id)
        self._frames_added(0, None)

    def _frames_added(self, size: int, to: Direction | None) -> None:
        if self._is_congested:
            self._count_queued(size, to)
        if not self._is_dirty:
            self._is_dirty = True
            self._hops.write_soon(self)

    # Responding.

    def add_request(
        self, request_id: RequestId, method: str, params: Params, back: Direction
    ) -> RawRequest:
        """Return a request of the peer; its response is sent here, on its way `back`."""

        def answered(response: RawResponse) -> None:
            del self._received[request_id]
            if self._all_answered is not None and not self._received:
                self._all_answered.set()
            if not self.is_silent:
                self._respond(request_id, response, back)

        request = self._received[request_id] = RawRequest(method, params, answered)
        return request

    def fail(self, request_id: RequestId, error: RequestError) -> None:
        """Respond with an error to a request that is not passed on."""
        self._frames_added(self._peer.fail(request_id, error), None)

    def _respond(self, request_id: RequestId, response: RawResponse, back: Direction) -> None:
        try:
            if response.error is not None:
                size = self._peer.fail_raw(request_id, response.error)
            else:
                size = self._peer.respond(request_id, response.result)
        except FrameTooLarge as exc:
            size = self._peer.fail(request_id, InternalError(str(exc)))
        self._frames_added(size, back)

    # Writing.

    def write(self) -> None:
        """Write the frames, unless the transport is congested."""
        self._is_dirty = False
        if not self._is_congested:
            self._flush()

    def _flush(self) -> None:
        frames = self._peer.frames_to_send()
        if not frames:
            return
        for observer in self._hops.observers:
            for frame in frames:
                observer(self.name, "sent", frame)
        self.transport.write(frames)
        self._is_congested = self.transport.congested

    def _count_queued(self, size: int, to: Direction | None) -> None:
        """Stop the source of a direction while this hop is congested."""
        if to is not None:
            self._hops.flows[to].block(self)
        self._queued_bytes += size
        if self._queued_bytes > MAX_QUEUED_BYTES and not self._is_over:
            self._is_over = True
            for neighbour in self.neighbours:
                neighbour.add(self)

    def writable(self) -> None:
        """Continue writing. Called by the transport."""
        self._queued_bytes = 0
        self._is_congested = False
        self._flush()
        if self._is_congested:
            return
        for flow in self._hops.flows.values():
            flow.unblock(self)
        self.pauses.remove(self)
        if self._is_over:
            self._is_over = False
            for neighbour in self.neighbours:
                neighbour.remove(self)

    # Receiving: called by the transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        """Handle what was read, and write everything that it results in."""
        hops = self._hops
        for observer in hops.observers:
            for frame in frames:
                observer(self.name, "received", frame)
        if not self._has_lines and [None for frame in frames if b"\n" in frame]:
            frames = [frame.translate(_ONE_LINE) for frame in frames]
        hops.is_reading = True
        try:
            if len(frames) < MIN_RUN:
                self._handle(frames)
            else:
                self._handle_runs(frames)
        finally:
            hops.is_reading = False
        if self._peer.rejected_bytes:
            self._rejected()
        hops.write()

    def _handle_runs(self, frames: Sequence[Frame]) -> None:
        """Handle what was read; notifications that follow each other and are alike at once."""
        at, count = 0, len(frames)
        while count - at >= MIN_RUN:
            found = self._runs.read(frames, at)
            if found is None:
                self._handle(frames[at : at + MIN_RUN])
                at += MIN_RUN
                continue
            run, wrapped = found
            try:
                self.on_run(run, wrapped=wrapped)
            except Exception as exc:  # logged; later messages must not be lost
                self._hops.log.exception("! %s: could not handle messages", self.name, exc=exc)
            at += len(run.texts)
        if at < count:
            self._handle(frames[at:])

    def _handle(self, frames: Sequence[Frame]) -> None:
        for event in self._peer.receive(frames):
            try:
                if type(event) is Message:
                    if event.id is UNSET:
                        self.on_notification(event.method, event.params)  # type: ignore[arg-type]  # a message has a method
                    else:
                        self.on_request(event.id, event.method, event.params)  # type: ignore[arg-type]  # as above
                elif type(event) is Response:
                    self._receive_response(event)
                elif type(event) is CancelRequest:
                    self.cancel_request(event.id)
                elif type(event) is UnexpectedMessage:
                    self._hops.log.log(
                        event.level, "! %s: %s", self.name, event.reason, kind=event.reason
                    )
            except Exception as exc:  # logged; later messages must not be lost
                self._hops.log.exception("! %s: could not handle a message", self.name, exc=exc)
                if type(event) is Message and event.id is not UNSET:
                    self.fail(event.id, InternalError())

    def cancel_request(self, request_id: RequestId) -> None:
        """Cancel a request of the peer, if it is not answered yet."""
        request = self._received.get(request_id)
        if request is not None:
            request.cancel()

    def cancel_wrapped(self, params: Params) -> None:
        """Cancel what a wrapped `$/cancel_request` names: an id of this connection (A-122)."""
        if (cancelled := self._peer.cancelled_by(params)) is not None:
            self.cancel_request(cancelled.id)

    def _receive_response(self, response: Response) -> None:
        sent: _Sent = response.call
        if response.error is not None:
            sent.request.answer(RawResponse(error=response.error))
        elif response.fault is not None:
            sent.request.fail(InternalError(f"{self.name}: {response.fault}"))
        elif response.message is not None:
            sent.request.fail(RequestError.of(response.code, response.message))
        else:
            sent.request.answer(RawResponse(result=response.result))

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """Answer a frame that was too large."""
        self.warn("a frame was refused", f"it exceeds {limit} bytes")
        answer = self._peer.refuse(InvalidRequest(f"The frame exceeds {limit} bytes"), head)
        if answer is not None:
            self._receive_response(answer)
        self._rejected()

    def _rejected(self) -> None:
        self._peer.rejected_bytes = 0
        self._frames_added(0, None)
        if self._is_congested:
            self.pauses.add(self)  # it sends what must be answered, and does not read the answers

    def eof_received(self, error: Exception | None) -> None:
        """Report the end of input."""
        self._hops.ended(self, error)


# Finds runs in the frames that a connection receives.

MIN_RUN = 4  # notifications; a shorter run is not worth the search
PARAMS = b',"params":'
_OBJECT = PARAMS + b"{"
_MAX_HEADS = 64  # a peer can name any number of methods
_MAX_HEAD_BYTES = 300

_decode_message = msgspec.json.Decoder(Message).decode
_decode_values = msgspec.json.Decoder(list[Raw]).decode
_encode_name = msgspec.json.Encoder().encode


class _Kind(Struct, frozen=True, gc=False):
    method: str
    is_wrapped: bool
    head: bytes
    begin: bytes  # of each notification of this kind: the head, and an object
    tail: bytes


def notification_head(envelope: str | None, method: str) -> bytes:
    """Return the text of a notification before its params; `envelope` is the method around it."""
    head = b'{"jsonrpc":"2.0","method":'
    if envelope is not None:
        head += _encode_name(envelope) + b',"params":{"method":'
    return head + lenient_json.dumps(method) + PARAMS


class RunReader:
    """Finds runs in what one connection receives.

    `unwraps` is True for a connection with two sides: there a notification to or from the successor
    is wrapped in another.
    """

    def __init__(self, *, unwraps: bool) -> None:
        self._unwraps = unwraps
        self._kinds: dict[bytes, _Kind | None] = {}

    def read(self, frames: Sequence[Frame], at: int) -> tuple[Run, bool] | None:
        """Return the run that begins with a frame, and whether it was wrapped; None if none does.

        Every notification in it is valid, and has params that are an object.
        """
        kind = self._kind_of(frames[at])
        if kind is None:
            return None
        begin, tail = kind.begin, kind.tail
        end = at
        for frame in frames[at:] if at else frames:
            if not (frame.startswith(begin) and frame.endswith(tail)):
                break
            end += 1
        if end - at < MIN_RUN:
            return None
        part = frames[at:end]
        first, last = len(kind.head), -len(tail)
        texts = [frame[first:last] for frame in part]
        text = b"[%b]" % b",".join(texts)
        try:
            values = _decode_values(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        # Otherwise one that is invalid could end in the next one.
        if (sizes := list(map(len, texts))) != list(map(len, values)):
            return None
        return Run(kind.method, texts, part, kind.head, sizes, text), kind.is_wrapped

    def _kind_of(self, frame: Frame) -> _Kind | None:
        head = self._head_of(frame)
        if head is None:
            return None
        try:
            return self._kinds[head]
        except KeyError:
            kind = self._new_kind(head)
            if len(self._kinds) < _MAX_HEADS:
                self._kinds[head] = kind
            return kind

    def _head_of(self, frame: Frame) -> bytes | None:
        """Return the text before the params, those within the envelope if there is one."""
        end = frame.find(_OBJECT, 0, _MAX_HEAD_BYTES)
        if end < 0:
            return None
        end += len(PARAMS)
        if self._unwraps and frame.startswith(b'{"method":', end):
            inner = frame.find(_OBJECT, end, end + _MAX_HEAD_BYTES)
            if inner > 0:
                end = inner + len(PARAMS)
        return bytes(frame[:end])

    def _new_kind(self, head: bytes) -> _Kind | None:
        """Return the kind of the notifications with a head; None if it is written differently."""
        for wrapped, tail in ((False, b"}"), (True, b"}}")):
            try:
                message = _decode_message(head + b"{}" + tail)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            method, envelope = message.method, None
            if method is UNSET or message.id is not UNSET:
                return None
            if wrapped:
                if not self._unwraps or method not in SUCCESSOR:
                    return None
                envelope = method
                method, _ = unwrap(message.params)
            elif self._unwraps and method in SUCCESSOR:
                return None
            if method == CANCEL_REQUEST or notification_head(envelope, method) != head:
                return None
            return _Kind(method, wrapped, head, head + b"{", tail)
        return None


# The names by which a conductor and a proxy exchange the messages of the proxy's successor.
#
# `acp` is the schema of the protocol, `rust` the official Rust SDK, `thinkwell` the npm package
# `@thinkwell/conductor`. All forms are accepted; the dialect of a component decides what is sent.

DialectName: TypeAlias = Literal["acp", "rust", "thinkwell"]


class Dialect(Struct, frozen=True):
    """How a component names its initialization and the messages of its successor."""

    name: DialectName
    initialize: str
    request: str
    notification: str


ACP: Dialect = Dialect("acp", "proxy/initialize", "proxy/successor", "proxy/successor")
RUST: Dialect = Dialect("rust", "_proxy/initialize", "_proxy/successor", "_proxy/successor")
THINKWELL: Dialect = Dialect(
    "thinkwell", "initialize", "_proxy/successor/request", "_proxy/successor/notification"
)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (ACP, RUST, THINKWELL)}
# By the method of a message: the dialect that uses it.
PROXY_INITIALIZE: dict[str, Dialect] = {ACP.initialize: ACP, RUST.initialize: RUST}
SUCCESSOR: dict[str, Dialect] = {
    ACP.request: ACP,
    RUST.request: RUST,
    THINKWELL.request: THINKWELL,
    THINKWELL.notification: THINKWELL,
}


class _Envelope(Struct, gc=False):
    """A wrapped message; the envelope's `_meta` is of this hop only (R-PROXY-16)."""

    method: str
    params: Raw | UnsetType = UNSET


_CONTAINERS = b"{["
_NULL = ord("n")
_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def wrap(method: str, params: Params) -> Raw:
    """Return the params of a message to or from a successor, with the given ones unchanged."""
    head = b'{"method":%b' % _encode_name(method)
    return Raw(head + b"}" if params is UNSET else b'%b,"params":%b}' % (head, params))


def unwrap(params: Params) -> tuple[str, Params]:
    """Return the method and the params of a wrapped message; raise `InvalidParams` (R-PROXY-15)."""
    try:
        envelope = _decode_envelope(params)  # type: ignore[arg-type]  # UNSET: caught
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return _unwrap_leniently(params)
    inner = envelope.params
    if inner is UNSET:
        return envelope.method, UNSET
    first = memoryview(inner)[0]
    if first in _CONTAINERS:
        return envelope.method, inner
    if first == _NULL:  # null and absent are equal
        return envelope.method, UNSET
    raise InvalidParams("The params of a wrapped message are an object or an array")


def _unwrap_leniently(params: Params) -> tuple[str, Params]:
    """Read what msgspec rejects, such as lone surrogates in the method."""
    try:
        value = None if params is UNSET else lenient_json.loads(bytes(params))
    except lenient_json.NotJson:
        value = None
    if not lenient_json.is_object(value) or not isinstance(value.get("method"), str):
        raise InvalidParams("A wrapped message has a method, and params that are an object")
    inner = value.get("params")
    if inner is None:
        return value["method"], UNSET
    if not lenient_json.is_object(inner) and not lenient_json.is_array(inner):
        raise InvalidParams("The params of a wrapped message are an object or an array")
    text = b"" if params is UNSET else lenient_json.member_texts(bytes(params)).get("params")
    return value["method"], Raw(text) if text else raw_json(inner)


# Thinkwell marks `initialize`, and the answer of a proxy, instead of naming another method. Also
# what a proxy sends on is marked, since the conductor passes it to the next component as it is.


def marked_as_proxy(value: Params) -> Raw:
    """Return the params or the result of `initialize` with `_meta.proxy`."""
    parts = _object(value)
    meta = parts.get("_meta")
    parts["_meta"] = {**(meta if lenient_json.is_object(meta) else {}), "proxy": True}
    return raw_json(parts)


def is_proxy_initialize(value: Params) -> bool:
    """Return whether params of `initialize`, or its result, have `_meta.proxy`."""
    meta = _object(value).get("_meta")
    return lenient_json.is_object(meta) and meta.get("proxy") is True


def unmarked(value: Raw) -> Raw:
    """Return the params or the result of `initialize` without `_meta.proxy`."""
    if not is_proxy_initialize(value):
        return value
    parts = _object(value)
    parts["_meta"] = {key: item for key, item in parts["_meta"].items() if key != "proxy"}
    if not parts["_meta"]:
        del parts["_meta"]
    return raw_json(parts)


def _object(text: Params) -> dict[str, Any]:
    try:
        value = None if text is UNSET else lenient_json.loads(bytes(text))
    except lenient_json.NotJson:
        value = None
    return value if lenient_json.is_object(value) else {}
