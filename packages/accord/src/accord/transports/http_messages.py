"""What the HTTP transport reads: responses, event streams, and the messages in them.

`read_outgoing` and `read_incoming` find the session of a message, its id, and what it answers.
`EventReader` takes payloads out of an event stream, `Inbox` keeps frames until they are delivered.
At the end is what HTTP/1.1 and HTTP/2 have in common: a `Codec` on which requests are sent, and
the `ResponseBody` while it arrives.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import TransportError
from accord.jsonrpc.message import HEAD_BYTES
from accord.text import lenient_json
from accord.transports.base import Frame, NullReceiver, Receiver

CANCEL_REQUEST = "$/cancel_request"
OPENS_SESSION = frozenset(("session/new", "session/fork"))
REATTACHES = frozenset(("session/load", "session/resume"))


class Outgoing(Struct, frozen=True, gc=False):
    """A message of this side. `id` is its JSON text: `1` and `"1"` differ."""

    kind: Literal["request", "notification", "answer"]
    id: bytes | None = None
    method: str = ""
    session: str | None = None
    cancels: bytes | None = None  # the id of the request that it cancels


class Incoming(Struct, frozen=True, gc=False):
    """A message of the other side that has an id, or announces a subagent."""

    id: bytes | None
    method: str | None
    body: Raw | None  # its result, else its params


class _Head(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


class _OfSession(Struct, rename="camel", gc=False):
    session_id: Any = None
    request_id: Raw | UnsetType = UNSET
    protocol_version: Any = None


class _Update(Struct, rename="camel", gc=False):
    session_update: Any = None
    session_id: Any = None


class _OfUpdate(Struct, gc=False):
    update: _Update


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_session = msgspec.json.Decoder(_OfSession).decode
_decode_update = msgspec.json.Decoder(_OfUpdate).decode
_UNKNOWN = _OfSession()


def read_outgoing(frame: Frame) -> Outgoing:
    """Return what a message of this side is; one that cannot be read has no session."""
    head = _head(frame)
    if head is None:
        return Outgoing("notification")
    request_id = None if head.id is UNSET else bytes(head.id)
    if head.method is UNSET:
        return Outgoing("answer" if request_id is not None else "notification", request_id)
    params = _of_session(head.params)
    cancels = None
    if head.method == CANCEL_REQUEST and params.request_id is not UNSET:
        cancels = bytes(params.request_id)
    session = params.session_id if isinstance(params.session_id, str) else None
    kind = "notification" if request_id is None else "request"
    return Outgoing(kind, request_id, head.method, session, cancels)


def read_incoming(frame: Frame) -> Incoming | None:
    """Return the head of a message that is a request, an answer or about a subagent, else None."""
    # Streamed text is neither; a quotation mark inside a JSON string has a backslash before it.
    if b'"id"' not in frame and b'"subagent_update"' not in frame:
        return None
    head = _head(frame)
    if head is None:
        return None
    body = head.params if head.result is UNSET else head.result
    return Incoming(
        None if head.id is UNSET else bytes(head.id),
        None if head.method is UNSET else head.method,
        None if body is UNSET else body,
    )


def session_of_result(body: Raw | None) -> str | None:
    """Return the session id in a result."""
    session = _of_session(UNSET if body is None else body).session_id
    return session if isinstance(session, str) else None


def version_of(body: Raw | None) -> int | None:
    """Return the protocol version in the result of `initialize`."""
    version = lenient_json.whole(_of_session(UNSET if body is None else body).protocol_version)
    return version if type(version) is int else None


def session_of_subagent(body: Raw | None) -> str | None:
    """Return the id of the session that an update announces (R-HTTP-33)."""
    if body is None:
        return None
    try:
        update = _decode_update(body).update
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if update.session_update != "subagent_update" or not isinstance(update.session_id, str):
        return None
    return update.session_id


def error_frame(request_id: bytes, message: str, data: dict[str, Any]) -> bytes:
    """Return the answer that fails a request of this side."""
    error = lenient_json.dumps({"code": -32603, "message": message, "data": data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)


def _head(frame: Frame) -> _Head | None:
    try:
        return _decode_head(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _of_session(body: Raw | UnsetType) -> _OfSession:
    if body is UNSET:
        return _UNKNOWN
    try:
        return _decode_session(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNKNOWN


# Reads event streams (`text/event-stream`): bytes in, payloads out.

_FIELD_BYTES = 4096  # of an event in addition to its payload
_MIN_RETRY_S, _MAX_RETRY_S = 0.1, 60.0  # R-HTTP-43
_BOM = b"\xef\xbb\xbf"


class EventReader:
    """Splits the bytes of one event stream into payloads of at most `limit` bytes.

    Lines end with LF, CRLF or CR; several `data` lines are joined; comments and payloads that are
    not JSON objects are skipped (R-HTTP-28). The beginning of a larger payload is added to
    `refused`. `last_id` is the id of the last event that has one, `retry_s` the time that the
    server asks to wait before the stream is opened again. `comments` counts comment lines.
    """

    def __init__(self, limit: int, last_id: str | None = None) -> None:
        self.refused: list[bytes] = []  # the caller removes its items
        self.last_id = last_id
        self.retry_s: float | None = None
        self.comments: int = 0
        self._limit = limit
        self._partial = bytearray()  # of an incomplete event
        self._skipping = False  # the rest of an event that is too large
        self._cut_crlf = False  # the bytes so far end with CR
        self._start: bytes | None = b""  # what may be a byte order mark

    def feed(self, data: bytes) -> list[Frame]:
        """Return the payloads of the events that are complete now."""
        if self._start is not None:
            data = self._start + data
            if data != _BOM and _BOM.startswith(data):
                self._start = data
                return []
            data, self._start = data.removeprefix(_BOM), None
        if b"\r" in data or self._cut_crlf:
            data = self._with_line_feeds(data)
        frames: list[Frame] = []
        if self._partial or self._skipping:
            rest = self._complete(data, frames)
            if rest is None:
                return frames
            data = rest
        events = data.split(b"\n\n")
        if last := events.pop():
            self._hold(last)
        for event in events:
            # Almost all events are one line.
            if event.startswith(b"data: {") and b"\n" not in event and len(event) <= self._limit:
                frames.append(event[6:])
            elif event:
                self._read(event, frames)
        return frames

    def _with_line_feeds(self, data: bytes) -> bytes:
        if self._cut_crlf and data.startswith(b"\n"):
            data = data[1:]
        self._cut_crlf = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _complete(self, data: bytes, frames: list[Frame]) -> bytes | None:
        """Complete the partial event; return what follows it, None if it is still incomplete."""
        if data.startswith(b"\n") and self._ends_line:
            end, after = 0, 1
        else:
            end = data.find(b"\n\n")
            after = end + 2
        if end < 0:
            self._hold(data)
            return None
        if not self._skipping:
            self._hold(data[:end])
        if self._skipping:
            self._skipping = False
        else:
            event, self._partial = bytes(self._partial), bytearray()
            self._read(event, frames)
        self._partial = bytearray()
        return data[after:]

    @property
    def _ends_line(self) -> bool:
        return self._partial.endswith(b"\n")

    def _hold(self, data: bytes) -> None:
        if self._skipping:
            self._partial = bytearray(data[-1:] or self._partial)  # how the last line ends
            return
        self._partial += data
        if len(self._partial) > self._limit + _FIELD_BYTES:
            self._refuse(bytes(self._partial[: HEAD_BYTES + _FIELD_BYTES]))
            self._skipping = True
            self._partial = self._partial[-1:]

    def _refuse(self, event: bytes) -> None:
        head = event.partition(b"data:")[2].lstrip(b" ")
        self.refused.append(head[:HEAD_BYTES])

    def _read(self, event: bytes, frames: list[Frame]) -> None:
        """Read the lines of one event."""
        payload: list[bytes] = []
        for line in event.split(b"\n"):
            field, _, value = line.partition(b":")
            if not field:
                self.comments += line.startswith(b":")
                continue
            value = value.removeprefix(b" ")
            if field == b"data":
                payload.append(value)
            elif field == b"id" and b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace") or None
            elif field == b"retry" and value.isdigit() and len(value) < 10:
                self.retry_s = min(max(int(value) / 1000, _MIN_RETRY_S), _MAX_RETRY_S)
        frame = b"\n".join(payload).strip()
        if len(frame) > self._limit:
            self.refused.append(frame[:HEAD_BYTES])
        elif frame.startswith(b"{"):
            # A frame has no line breaks; between two tokens of JSON they are white space.
            frames.append(frame.replace(b"\n", b" ") if len(payload) > 1 else frame)


# What has arrived by HTTP and is yet to be delivered.


class Inbox:
    """Delivers the frames of one iteration of the event loop together, and the end after them.

    While `may_read` is not set, everything waits.
    """

    def __init__(self, frame_bytes: int) -> None:
        self.receiver: Receiver = NullReceiver()
        self.may_read: asyncio.Event = asyncio.Event()
        self.may_read.set()
        self.error: TransportError | None = None  # how the connection has ended
        self.has_ended: bool = False
        self._frame_bytes = frame_bytes
        self._arrived: list[Frame] = []
        self._due = False
        self._end_delivered = False

    def put(self, frames: Sequence[Frame]) -> None:
        """Deliver frames after those that came before."""
        self._arrived += frames
        self._deliver_soon()

    def refuse(self, head: bytes) -> None:
        """Report a frame over the limit, which begins like this."""
        arrived, self._arrived = self._arrived, []
        if arrived:
            self.receiver.frames_received(arrived)
        self.receiver.frame_refused(self._frame_bytes, head)

    def end(self, error: TransportError) -> None:
        """Deliver the end."""
        self.has_ended = True
        self.error = error
        self._deliver_soon()

    def resume(self) -> None:
        """Continue after a pause."""
        self.may_read.set()
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self._arrived and self.may_read.is_set():
            arrived, self._arrived = self._arrived, []
            self.receiver.frames_received(arrived)
        if self.has_ended and not self._end_delivered and self.may_read.is_set():
            self._end_delivered = True
            self.receiver.eof_received(self.error)


class ResponseBody:
    """Collects what has arrived until it is taken.

    `taken(size)` is called with the number of bytes that may be received in addition.
    """

    def __init__(self, taken: Callable[[int], None]) -> None:
        self.size: int = 0
        self.has_ended: bool = False
        self._parts: list[bytes] = []
        self._taken = taken
        self._owed = 0  # bytes to report as taken; padding counts, too
        self._error: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None

    def add(self, data: bytes, counted: int | None = None) -> None:
        """Add bytes; `counted` is how many of them flow control counts."""
        self._parts.append(data)
        self.size += len(data)
        self._owed += len(data) if counted is None else counted
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """End the body; with an error if it is not complete."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._wake()

    async def take(self) -> bytes:
        """Return what has arrived, at least one byte, or nothing at the end; raise its error."""
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self.has_ended:
                return b""
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        owed, self._owed = self._owed, 0
        self._taken(owed)
        return data

    def drop(self) -> int:
        """Drop what has not been taken; return how many bytes of it flow control counts."""
        self._parts.clear()
        owed, self._owed = self._owed, 0
        return owed

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


KEEP_S = 3.0


Headers: TypeAlias = list[tuple[bytes, bytes]]  # the first one is `Host`


class RawResponse:
    """The head of a response, and its body as it arrives; close it."""

    def __init__(self, status: int, headers: Headers, body: ResponseBody, codec: Codec) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.reason = ""
        self.stream = 0
        self._codec = codec

    async def aclose(self) -> None:
        """Give up what was not read."""
        self._codec.requests -= 1
        self._codec.idle_since = asyncio.get_running_loop().time()
        self._codec.release(self)


class Codec(ABC):
    """What one version of HTTP makes of a connection. `requests` are those in progress.

    A connection that is idle for `keep_s` seconds is not used again: servers close connections
    that are idle for 5 seconds or more, and a request must not meet such an end.
    """

    keep_s: float = KEEP_S

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.requests = 0
        self.idle_since: float = 0.0
        self.is_over: bool = False

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether it accepts another request."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until requests can be sent; raise `OSError`."""

    @abstractmethod
    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        """Send a request and return the response; raise `OSError` if the connection ends."""

    @abstractmethod
    def release(self, response: RawResponse) -> None:
        """Give up what was not read of a response."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Receive bytes of the server."""

    @abstractmethod
    def eof_received(self) -> None:
        """Receive the end of the server's bytes."""

    @abstractmethod
    def lost(self, error: Exception | None) -> None:
        """Fail what is in progress."""
