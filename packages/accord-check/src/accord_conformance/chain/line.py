"""A connection of a chain with two ends in it: plain messages, and those in the envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from accord_conformance.chain.dialect import Dialect, cancelled_id, is_wrapped, unwrap
from accord_conformance.harness.raw_hop import Field, HopMessage, RawHop, decoded, encoded
from accord_conformance.traffic.connection_state import id_key
from accord_conformance.traffic.frame import Frame

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
