"""The dispatch table of a connection, the context of handlers, and how params are read.

`Routes` says what serves a method. Params that its decoder rejects are read leniently, and streamed
text is read without decoding whole messages. The W3C trace context of a request is copied from its
`_meta` to what its handler sends (R-EXT-02).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from accord.connection.limits import FloodLog
from accord.errors import BacklogExceeded, DecodeError, InvalidParams, MethodNotFound, RequestError
from accord.jsonrpc.message import Message, RequestId
from accord.text.excerpt import excerpt
from accord.text.lenient_json import is_object
from accord.transports.base import Frame

# The trace context of the request that is being handled.

TRACE_KEYS = ("traceparent", "tracestate", "baggage")

_trace: ContextVar[dict[str, Any] | None] = ContextVar("accord_trace", default=None)
# Returns the trace context of the request that is being handled; None if it has none.
trace: Callable[[], dict[str, Any] | None] = _trace.get


def current_trace() -> dict[str, Any]:
    """Return the trace context of the current request, or an empty dict."""
    return dict(_trace.get() or {})


def context_with_trace(meta: dict[str, Any]) -> contextvars.Context | None:
    """Return a context with the trace of this `_meta`, or None if it has none."""
    found = {key: meta[key] for key in TRACE_KEYS if key in meta}
    if not found:
        return None
    context = copy_context()
    context.run(_trace.set, found)
    return context


def with_trace(params: Any) -> Any:
    """Return params with the trace of the current request, if it has one."""
    found = trace()
    if found is None:
        return params
    if isinstance(params, Struct) and hasattr(params, "meta"):
        meta: Any = getattr(params, "meta")  # noqa: B009  # not every wire type has it
        if meta is None or meta is UNSET:
            return replace(params, meta=dict(found))
        return replace(params, meta={**found, **meta})
    if is_object(params):
        own = params.get("_meta")
        return {**params, "_meta": {**found, **(own if is_object(own) else {})}}
    return params


class ConnectionHandle(Protocol):
    """The part of a connection that handlers use."""

    message_bytes: int  # the size of the params that are being handled

    @property
    def has_ended(self) -> bool:
        """Whether the peer has disconnected, so that no response can come."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connection ends."""
        ...

    def cancel_where(self, matches: Callable[[str, Any], bool]) -> None:
        """Cancel the requests of the peer whose method and params match."""
        ...


class Context:
    """The second argument of a handler. `request_id` is None for notifications."""

    __slots__ = ("connection", "request_id")

    def __init__(self, connection: ConnectionHandle, request_id: RequestId) -> None:
        self.connection: ConnectionHandle = connection
        self.request_id: RequestId = request_id

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that outlives the handler; it is cancelled when the connection ends."""
        self.connection.spawn(work)

    @property
    def has_ended(self) -> bool:
        """Whether the peer has disconnected, so that sending fails."""
        return self.connection.has_ended

    @property
    def trace(self) -> dict[str, Any]:
        """The W3C trace context that the request being handled carried in `_meta`."""
        return current_trace()


class Route(Struct, kw_only=True):
    """Serves one method: `handler(params, context)` returns the result or an awaitable of it.

    `cancelled_result` returns the result of a request whose handler was cancelled; without it,
    the response is error -32800. `empty_result` replaces None if the method's result is an object.
    """

    decode: Callable[[bytes | Raw], Any]
    handler: Callable[[Any, Any], Any]
    cancelled_result: Callable[[], Any] | None = None
    empty_result: Callable[[], Any] | None = None


def _no_lenient_decode(_method: str, _text: bytes) -> Any | None:
    return None


def _ignore_undecodable(_method: str, _text: bytes, _error: DecodeError) -> None:
    pass


def _ignore_backlog(_session: Any, _error: BacklogExceeded) -> None:
    pass


class Routes(Struct, kw_only=True):
    """The dispatch table of a connection.

    `fallback(method, is_request)` returns a route for a method that is in neither table, or the
    error of the response. `lenient_decode(method, text)` may decode params that the route could
    not decode. `on_undecodable(method, text, error)` is called for notifications that could not be
    decoded, `on_backlog_exceeded(session, error)` for sessions whose messages arrive faster than
    they are handled.
    """

    requests: dict[str, Route]
    notifications: dict[str, Route]
    context: Callable[[RequestId], Any]
    fallback: Callable[[str, bool], Route | RequestError]
    lenient_decode: Callable[[str, bytes], Any | None] = _no_lenient_decode
    on_undecodable: Callable[[str, bytes, DecodeError], None] = _ignore_undecodable
    on_backlog_exceeded: Callable[[Any, BacklogExceeded], None] = _ignore_backlog


def not_served(method: str, _is_request: bool) -> RequestError:
    """Return "Method not found": the `fallback` of a complete table."""
    method = excerpt(method)
    return MethodNotFound(f"Method not found: {method}", data={"method": method})


# Streamed text: notifications that differ from an earlier one only in one string.
#
# A long message arrives as thousands of notifications with the same session, message and type.
# Once one of them was decoded, the bytes before and after its text are known. A frame that begins
# and ends with the same bytes, and has a JSON string in between, is the same notification with
# another text, so only the string has to be decoded.

_MIN_FRAMES = 8  # of one read: fewer are not worth the search
_MAX_SKIPPED = 256  # reads without a search, if the last searches were of no use
_PROBE = "\N{SNOWMAN} another text"

_decode_message = msgspec.json.Decoder(Message).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode


class TextReceiver(Protocol):
    """Receives the texts of one stream."""

    text: str  # the last one

    def fits(self, method: str, params: Any, text: str) -> bool:
        """Return whether these params mean this text of the stream, and nothing else."""
        ...

    def receive(self, texts: list[str], sizes: list[int]) -> None:
        """Receive texts in order, and the sizes of their params in bytes."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether texts of this stream can no longer be received."""
        ...


class StreamedText:
    """Recognizes the frames of the stream that was decoded last."""

    __slots__ = (
        "_head",
        "_log",
        "_notifications",
        "_overhead",
        "_skip",
        "_skipped",
        "_tail",
        "offered",
        "receiver",
    )

    def __init__(self, flood_log: FloodLog) -> None:
        self._log = flood_log
        self._notifications: dict[str, Route] = {}
        self.offered: TextReceiver | None = None  # of the last text that was decoded
        self.receiver: TextReceiver | None = None
        self._head = b""
        self._tail = b""
        self._overhead = 0  # bytes of a frame in addition to its params
        self._skip = 0
        self._skipped = 0

    def serve(self, routes: Routes) -> None:
        """Forget the stream, and use these routes to recognize the next one."""
        self.offered = self.receiver = None
        self._notifications = routes.notifications

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Deliver the texts of the first frames, as long as they fit; return the other frames."""
        receiver = self.receiver
        if receiver is None:
            return frames
        if receiver.has_ended:
            self.receiver = None
            return frames
        head, tail, overhead = self._head, self._tail, self._overhead
        begin, end = len(head), -len(tail)
        texts: list[str] = []
        sizes: list[int] = []
        for frame in frames:
            if not (frame.startswith(head) and frame.endswith(tail)):
                break
            try:
                texts.append(_decode_text(frame[begin:end]))
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            sizes.append(len(frame) - overhead)
        if not texts:
            return frames
        self._skip = 0
        try:
            receiver.receive(texts, sizes)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! the receiver of streamed text failed", exc=exc)
            self.receiver = None
        return frames[len(texts) :]

    def search(self, frames: Sequence[Frame]) -> None:
        """Learn the form of the last frame if it contains the text that was decoded last."""
        offered, self.offered = self.offered, None
        if offered is None or len(frames) < _MIN_FRAMES:
            return
        if self._skipped < self._skip:
            self._skipped += 1
            return
        # Of no use until `take` finds a frame: with many streams at once it never does.
        self._skipped = 0
        self._skip = min(2 * self._skip + 1, _MAX_SKIPPED)
        frame = bytes(frames[-1])
        try:
            text = _encode_text(offered.text)
        except UnicodeEncodeError:  # half of a surrogate pair
            return
        head, found, tail = frame.rpartition(text)
        if not found or not tail:
            return
        probe = head + _encode_text(_PROBE) + tail
        try:
            message = _decode_message(probe)
            method = message.method
            if method is msgspec.UNSET or message.id is not msgspec.UNSET:
                return
            params = b"" if message.params is msgspec.UNSET else bytes(message.params)
            route = self._notifications.get(method)
            if route is None or not offered.fits(method, route.decode(params), _PROBE):
                return
        except (msgspec.DecodeError, UnicodeDecodeError, DecodeError, TypeError):
            return
        self.receiver = offered
        self._head, self._tail = head, tail
        self._overhead = len(probe) - len(params)


# Params that the route's decoder rejects: null, early spellings, undecodable ones.

NO_PARAMS = b"{}"


def session_id_of(params: Any) -> Any:
    """Return the id of the session that params belong to, or None."""
    if is_object(params):  # of an extension
        session = params.get("sessionId")
        return session if isinstance(session, str) else None
    return getattr(params, "session_id", None)


def decode_leniently(
    routes: Routes, route: Route, method: Any, text: Raw | Any, exc: DecodeError
) -> Any:
    """Accept null params (R-GEN-09) and early spellings; otherwise raise `InvalidParams`."""
    if text is not UNSET:
        try:
            if bytes(text).strip() == b"null":
                return route.decode(NO_PARAMS)
            if (params := routes.lenient_decode(method, bytes(text))) is not None:
                return params
        except DecodeError:
            pass
    data = {"path": exc.where, "reason": exc.message}
    raise InvalidParams(f"Invalid params: {exc}", data=data) from exc


def report_undecodable(
    routes: Routes, method: Any, text: Raw | Any, error: DecodeError, flood_log: FloodLog
) -> None:
    """Report a notification that could not be decoded to the role."""
    try:
        routes.on_undecodable(method, NO_PARAMS if text is UNSET else bytes(text), error)
    except Exception as exc:  # noqa: BLE001  # logged
        flood_log.exception("! the handler of undecodable notifications failed", exc=exc)
