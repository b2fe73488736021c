"""A connection of a chain, on which the messages of two ends are told apart.

`Dialect` has the names of the methods and wraps the messages of the successor. `Line` is a
connection with two ends in it: plain messages, and those in the envelope. The rest compares what
was forwarded with what was sent, and has messages that decoding and encoding would change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.text.lenient_json import is_array, is_object
from accord_conformance.harness import Field, HopMessage, RawHop, decoded, encoded
from accord_conformance.traffic.connection_state import id_key
from accord_conformance.traffic.message import Frame

# The dialects of the connection between a conductor and a proxy: names of methods, and envelopes.
#
# Messages to and from the proxy's successor are wrapped; those of its client are plain.

_SUCCESSORS = (
    "proxy/successor",
    "_proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/notification",
)


class Envelope(Struct):
    """A wrapped message: its method and its params, as bytes."""

    method: str
    params: Field = UNSET


class Dialect(Struct, frozen=True, kw_only=True):
    """How a component names the methods of a chain."""

    name: str
    initialize: str
    request: str
    notification: str
    marks_proxies: bool = False  # in `_meta` of `initialize`

    def initialize_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params that initialize a proxy."""
        if not self.marks_proxies:
            return params
        meta = params.get("_meta")
        return {**params, "_meta": {**(meta if is_object(meta) else {}), "proxy": True}}

    def wrap(
        self, method: str, params: bytes | None, *, is_request: bool, meta: bytes | None = None
    ) -> tuple[str, bytes]:
        """Return the method and the params of a wrapped message."""
        members = [b'"method":%s' % msgspec.json.encode(method)]
        if params is not None:
            members.append(b'"params":%s' % params)
        if meta is not None:
            members.append(b'"_meta":%s' % meta)
        return self.request if is_request else self.notification, b"{%s}" % b",".join(members)

    def names(self, message: HopMessage) -> bool:
        """Whether the method of a wrapped message is that of this dialect."""
        return message.method == (self.notification if message.id is UNSET else self.request)


DIALECTS = {
    one.name: one
    for one in (
        Dialect(
            name="acp",
            initialize="proxy/initialize",
            request="proxy/successor",
            notification="proxy/successor",
        ),
        Dialect(
            name="rust",
            initialize="_proxy/initialize",
            request="_proxy/successor",
            notification="_proxy/successor",
        ),
        Dialect(
            name="thinkwell",
            initialize="initialize",
            request="_proxy/successor/request",
            notification="_proxy/successor/notification",
            marks_proxies=True,
        ),
    )
}


def is_wrapped(method: str | UnsetType) -> bool:
    """Whether a method carries a message to or from the successor, in any dialect."""
    return method in _SUCCESSORS


def unwrap(params: Field) -> Envelope | None:
    """Return the message in the params of a wrapped one; None if there is none."""
    try:
        return None if params is UNSET else msgspec.json.decode(params, type=Envelope)
    except msgspec.DecodeError:
        return None


def cancelled_id(params: Field) -> Any:
    """Return the id that `$/cancel_request` names."""
    value = decoded(params)
    return value.get("requestId") if is_object(value) else None


# Compares JSON texts: what a component forwards must be equal to what it received.


def same_value(one: Field | bytes | None, other: Field | bytes | None) -> bool:
    """Whether two texts have the same value; absent and null are equal.

    Numbers are compared as most programs read them: as 64-bit floating point.
    """
    return _same(_value(one), _value(other))


def same_bytes(one: Field | bytes | None, other: Field | bytes | None) -> bool:
    """Whether two texts are equal; absent and null are, too."""
    return text_of(one) == text_of(other)


def text_of(field: Field | bytes | None) -> bytes:
    """Return a text; `null` if it is absent."""
    return b"null" if field is None or field is UNSET else bytes(field)


def _value(field: Field | bytes | None) -> Any:
    return json.loads(text_of(field), parse_int=float)


def _same(one: Any, other: Any) -> bool:
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


# A connection with two ends in it.

_CANCEL = "$/cancel_request"


class Sent:
    """A request that the kit sent; `response` is set when it arrives."""

    def __init__(self, end: End, frame: Frame, ident: Any, method: str) -> None:
        self.frame = frame
        self.ident = ident
        self.method = method
        self.response: HopMessage | None = None
        self.on_response: Callable[[], None] = lambda: None
        self._end = end

    @property
    def ok(self) -> bool:
        """Whether it was answered with a result."""
        return self.response is not None and self.response.error is UNSET

    @property
    def result(self) -> Any:
        """The result; None without one."""
        return None if self.response is None else decoded(self.response.result)

    @property
    def evidence(self) -> tuple[Frame, ...]:
        """The frames of the request and its response."""
        return (self.frame, *([self.response.frame] if self.response else []))

    def describe(self) -> str:
        """Describe how it was answered."""
        if self.response is None:
            return "no response"
        return "a result" if self.ok else f"error {self.response.code}"

    def cancel(self) -> Frame:
        """Cancel it on this hop."""
        return self._end.line.hop.send_message(
            method=encoded(_CANCEL), params=encoded({"requestId": self.ident})
        )

    async def wait(self, within_s: float) -> None:
        """Wait for the response; raise `NoResponse`."""
        await self._end.line.hop.wait_until(
            lambda: self.response is not None, f"response to {self.method}", within_s
        )


class Arrival:
    """A request or a notification of the peer; `cancelled` is the frame that cancels it."""

    def __init__(self, end: End, message: HopMessage, method: str, params: Field) -> None:
        self.end = end
        self.message = message
        self.method = method
        self.params = params
        self.frame = message.frame
        self.is_answered = False
        self.cancelled: Frame | None = None
        self.on_cancel: Callable[[], object] = lambda: None

    @property
    def is_request(self) -> bool:
        """Whether it needs a response."""
        return self.message.id is not UNSET

    @property
    def value(self) -> Any:
        """The params; None without them."""
        return decoded(self.params)

    def reply(self, result: bytes) -> Frame:
        """Answer with a result, as JSON text."""
        return self._answer(result=result)

    def fail(self, error: bytes) -> Frame:
        """Answer with an error, as JSON text."""
        return self._answer(error=error)

    def _answer(self, **fields: bytes) -> Frame:
        assert self.message.id is not UNSET
        self.is_answered = True
        self.end.line.release(self)
        return self.end.line.hop.send_message(id=bytes(self.message.id), **fields)


class End:
    """One of the two ends: messages to and from one neighbour of the component."""

    def __init__(self, line: ChainLine, *, wrapped: bool) -> None:
        self.line = line
        self.arrivals: list[Arrival] = []
        self._wrapped = wrapped

    def request(
        self,
        method: str,
        params: bytes | None,
        *,
        meta: bytes | None = None,
        ident: str | int | None = None,
    ) -> Sent:
        """Send a request; `meta` is that of the envelope, if there is one."""
        ident = self.line.next_id() if ident is None else ident
        fields = self._fields(method, params, is_request=True, meta=meta)
        frame = self.line.hop.send_message(id=encoded(ident), **fields)
        sent = Sent(self, frame, ident, method)
        self.line.sent[id_key(ident)] = sent
        return sent

    def notify(self, method: str, params: bytes | None, *, meta: bytes | None = None) -> Frame:
        """Send a notification."""
        fields = self._fields(method, params, is_request=False, meta=meta)
        return self.line.hop.send_message(**fields)

    def _fields(
        self, method: str, params: bytes | None, *, is_request: bool, meta: bytes | None
    ) -> dict[str, bytes]:
        if self._wrapped:
            method, params = self.line.dialect.wrap(
                method, params, is_request=is_request, meta=meta
            )
        fields = {"method": encoded(method)}
        return fields if params is None else {**fields, "params": params}

    def since(self, frame: Frame, *methods: str) -> list[Arrival]:
        """Return what arrived after a frame, only these methods if any are given."""
        return [
            one
            for one in self.arrivals
            if one.frame.number > frame.number and (not methods or one.method in methods)
        ]

    async def wait_for(self, method: str, after: Frame, within_s: float) -> Arrival:
        """Return the first message with this method after a frame; raise `NoResponse`."""
        await self.line.hop.wait_until(lambda: bool(self.since(after, method)), method, within_s)
        return self.since(after, method)[0]


class ChainLine:
    """The kit's end of a connection to a proxy, or to a conductor.

    `plain` has the messages that are not wrapped, `wrapped` those in the envelope of the dialect.
    `other_dialect`, `reused_ids`, `unknown_responses` and `stray_cancels` are
    faults of the peer. `wrapped_cancels` are cancellations in an envelope.
    """

    def __init__(self, hop: RawHop, dialect: Dialect) -> None:
        self.hop = hop
        self.dialect = dialect
        self.plain = End(self, wrapped=False)
        self.wrapped = End(self, wrapped=True)
        self.sent: dict[tuple[type, Any], Sent] = {}  # every request of the kit
        self.other_dialect: list[Frame] = []
        self.reused_ids: list[Frame] = []
        self.unknown_responses: list[Frame] = []
        self.stray_cancels: list[Frame] = []
        self.wrapped_cancels: list[Frame] = []
        self._open: dict[tuple[type, Any], Arrival] = {}
        self._last_id = 0
        self.on_arrival: Callable[[Arrival], None] = lambda _: None
        hop.on_message = self._received

    def next_id(self) -> int:
        """Return an unused id."""
        self._last_id += 1
        return self._last_id

    def release(self, arrival: Arrival) -> None:
        """Forget a request that is being answered."""
        self._open.pop(id_key(decoded(arrival.message.id)), None)

    def _received(self, message: HopMessage) -> None:
        if message.is_response:
            self._on_response(message)
            return
        method = str(message.method)
        end, params = self.plain, message.params
        if is_wrapped(method):
            inner = unwrap(params)
            if inner is None:
                self.hop.faults.append(message.frame)
                return
            if not self.dialect.names(message):
                self.other_dialect.append(message.frame)
            end, method, params = self.wrapped, inner.method, inner.params
        if method == _CANCEL:
            if end is self.wrapped:
                self.wrapped_cancels.append(message.frame)
            self._on_cancel(message, params)
            return
        arrival = Arrival(end, message, method, params)
        if arrival.is_request:
            key = id_key(decoded(message.id))
            if key in self._open:
                self.reused_ids.append(message.frame)
            self._open[key] = arrival
        end.arrivals.append(arrival)
        self.on_arrival(arrival)

    def _on_response(self, message: HopMessage) -> None:
        sent = self.sent.get(id_key(decoded(message.id)))
        if sent is None or sent.response is not None:
            self.unknown_responses.append(message.frame)
        else:
            sent.response = message
            sent.on_response()

    def _on_cancel(self, message: HopMessage, params: Field) -> None:
        arrival = self._open.get(id_key(cancelled_id(params)))
        if arrival is None:
            self.stray_cancels.append(message.frame)
        else:
            arrival.cancelled = message.frame
            arrival.on_cancel()


# Messages that decoding and encoding would change: numbers, escapes, the order of keys.

ODD = (
    rb'{"sessionId":"accord-check","zeta":1.0,"alpha":[1e-7,-0.0,9007199254740993,'
    rb'12345678901234567890,0.1000000000000000055],"\u00e9":"\u00e9\/","nested":{"b":null,"a":{}},'
    rb'"_meta":{"accord-check/trace":[1.50,null,{"z":1,"a":2}]},"later":true}'
)
ODD_RESULT = (
    rb'{"zeta":[1.0,{"b":1,"a":null}],"_meta":{"accord-check/z":9007199254740993},"a":"\/"}'
)
ODD_ERROR = rb'{"code":-31999,"message":"No \u00e9","data":{"z":1.0,"a":[null,9007199254740993]}}'
# As a conductor answers when the successor has exited (R-PROXY-17).
EXITED = rb'{"code":-32603,"message":"The component exited","data":{"component":"agent"}}'

# Methods that no proxy changes.
CUSTOM = "_accord-check/probe"
UNKNOWN = "accord-check/unknown"
