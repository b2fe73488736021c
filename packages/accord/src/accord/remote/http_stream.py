"""What one stream of events holds for its reader, and what clients have posted.

`EventStream` has the frames that wait, `StreamReader` sends them as the response of a GET, and
`UnreadTotal` bounds them for all connections. `PostedInput` has the messages of clients until the
agent reads them; `read_message` finds their kind, their id and their session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.remote.access import Event, Receive, Send
from accord.text import lenient_json
from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame, NullReceiver, Receiver

# What the HTTP server reads of a message: its kind, its id and its session.

ID_LENGTH = 1024  # UTF-16 code units of an id (R-HTTP-22)

# Their params have a session, in v1 or in both versions; "set_model" is that of older peers.
SESSION_METHODS: Final = frozenset(
    f"session/{name}"
    for name in (
        *("cancel", "close", "delete", "fork", "load", "prompt", "resume"),
        *("set_config_option", "set_mode", "set_model"),
    )
)


class _WithSession(Struct, gc=False):
    session_id: Any = msgspec.field(default=UNSET, name="sessionId")


_Value: TypeAlias = _WithSession | list[msgspec.Raw] | str | int | float | bool | None | UnsetType


class _Envelope(Struct, gc=False):
    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: _Value = UNSET
    result: _Value = UNSET
    error: msgspec.Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


class MessageHead(Struct, gc=False):
    """The parts of a message that decide where it goes.

    `session` is that of the params, or of the result of a response.
    """

    kind: Literal["request", "notification", "response", "unknown"]
    id: Any = None  # of another JSON type than string and number: None
    method: str = ""
    session: str | None = None
    has_null_id: bool = False
    failed: bool = False  # an error response


class NotAMessage(ValueError):
    """The text is not a JSON object; `is_array` if it is an array, `is_json` if it is JSON."""

    def __init__(self, *, is_json: bool, is_array: bool = False) -> None:
        super().__init__("not a JSON object")
        self.is_json = is_json
        self.is_array = is_array


def read_message(text: bytes | bytearray) -> MessageHead:
    """Return the head of a message, of which nothing else is decoded; raise `NotAMessage`."""
    try:
        envelope = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        envelope = _read_leniently(text)
    has_id = envelope.id is not UNSET
    message_id = envelope.id if type(envelope.id) in (int, str, float) else None
    has_null_id = has_id and envelope.id is None
    method = envelope.method
    if envelope.jsonrpc != "2.0":
        return MessageHead("unknown")
    if type(method) is str:
        kind = "request" if has_id else "notification"
        return MessageHead(kind, message_id, method, _session(envelope.params), has_null_id)
    failed = envelope.error is not UNSET
    if method is UNSET and has_id and (failed or envelope.result is not UNSET):
        session = _session(envelope.result)
        return MessageHead("response", message_id, "", session, has_null_id, failed)
    return MessageHead("unknown", message_id, "", None, has_null_id)


def _session(value: Any) -> str | None:
    found = value.session_id if type(value) is _WithSession else None
    return found if type(found) is str else None


def _read_leniently(text: bytes | bytearray) -> _Envelope:
    """Read what the decoder rejects, such as lone surrogates."""
    try:
        value = lenient_json.loads(text)
    except lenient_json.NotJson:
        raise NotAMessage(is_json=False) from None
    if not lenient_json.is_object(value):
        raise NotAMessage(is_json=True, is_array=lenient_json.is_array(value))
    return _Envelope(
        value.get("jsonrpc", UNSET),
        value.get("id", UNSET),
        value.get("method", UNSET),
        _value(value.get("params", UNSET)),
        _value(value.get("result", UNSET)),
        msgspec.Raw(b"null") if "error" in value else UNSET,
    )


def _value(value: Any) -> Any:
    return _WithSession(value.get("sessionId", UNSET)) if lenient_json.is_object(value) else value


# The bound on what all HTTP connections of a server hold for clients that do not read.


class UnreadHolder(Protocol):
    """A connection with output that was not read."""

    def total_fell(self) -> None:
        """Called when all connections together hold no more than they may."""
        ...


class UnreadTotal:
    """The bytes that all connections of a server hold.

    While they hold more than `limit` together, no connection should hold more than its share, so
    that clients which read are not delayed by those which do not.
    """

    def __init__(self, limit: int) -> None:
        self.size: int = 0
        self._limit = limit
        self._holders: dict[UnreadHolder, None] = {}
        self._waiting: dict[UnreadHolder, None] = {}

    def join(self, holder: UnreadHolder) -> None:
        """Count a connection."""
        self._holders[holder] = None

    def leave(self, holder: UnreadHolder, size: int) -> None:
        """Count a connection no more, nor the bytes that it holds."""
        self._holders.pop(holder, None)
        self._waiting.pop(holder, None)
        self.remove(size)

    def add(self, size: int) -> None:
        """Count bytes that a connection holds."""
        self.size += size

    def remove(self, size: int) -> None:
        """Count bytes no more."""
        was_over = self.size > self._limit
        self.size -= size
        if was_over and self.size <= self._limit:
            waiting, self._waiting = self._waiting, {}
            for holder in waiting:
                holder.total_fell()

    def is_over(self, holder: UnreadHolder, size: int) -> bool:
        """Return whether a connection that holds so much must wait; if so, `total_fell` follows."""
        over = self.size > self._limit and size > self._limit // max(len(self._holders), 1)
        if over:
            self._waiting[holder] = None
        return over


# The messages that clients have posted, until the agent reads them.


class PostedInput:
    """Passes frames to a receiver in order, once it is known and while it reads."""

    def __init__(self) -> None:
        self.ended: bool = False
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._paused = False
        self._error: Exception | None = None
        self._held: deque[tuple[Frame, asyncio.Future[bool]]] = deque()

    def start(self, receiver: Receiver) -> None:
        """Pass the frames to a receiver from now on."""
        self._receiver = receiver
        self._loop.call_soon(self._deliver_held)

    def pause(self) -> None:
        """Pass nothing for now."""
        self._paused = True

    def resume(self) -> None:
        """Pass frames again."""
        self._paused = False
        self._loop.call_soon(self._deliver_held)

    async def deliver(self, frame: Frame) -> bool:
        """Pass a frame; return once the agent has it, or False if the input has ended."""
        if self.ended:
            return False
        receiver = self._receiver
        if receiver is not None and not self._paused and not self._held:
            receiver.frames_received((frame,))
            return True
        delivered: asyncio.Future[bool] = self._loop.create_future()
        self._held.append((frame, delivered))
        return await delivered

    def end(self, error: Exception | None) -> None:
        """Tell the receiver that nothing more arrives; frames that wait are dropped."""
        if not self.ended:
            self.ended = True
            self._error = error
            self._drop_held()
            self._loop.call_soon(self._deliver_end)

    def close(self) -> None:
        """Call the receiver no more."""
        self.ended = True
        self._receiver = NullReceiver()
        self._drop_held()

    def tell_writable(self) -> None:
        """Tell the receiver that it can write again."""
        if self._receiver is not None:
            self._receiver.writable()

    def _deliver_held(self) -> None:
        while self._held and self._receiver is not None and not self._paused:
            frame, delivered = self._held.popleft()
            if not delivered.done():  # the POST was not cancelled
                self._receiver.frames_received((frame,))
                delivered.set_result(True)
        if self.ended:
            self._deliver_end()

    def _deliver_end(self) -> None:
        """Pass the end, once, as soon as the receiver is known."""
        if self._receiver is not None:
            receiver, self._receiver = self._receiver, NullReceiver()
            receiver.eof_received(self._error)

    def _drop_held(self) -> None:
        while self._held:
            delivered = self._held.popleft()[1]
            if not delivered.done():
                delivered.set_result(False)


SEND_BYTES = 64 * 1024  # of frames sent together
SLOW_S = 1.0  # a reader without progress for so long no longer delays the agent
SETTLE_S = 0.02  # for a client to read this stream, before a message that follows on another


class Reader(Protocol):
    """The GET that reads a stream."""

    def wake(self) -> None:
        """Called when there is something to send, or the stream has ended."""
        ...

    def leave(self) -> None:
        """Called when the reader must end at once."""
        ...

    def has_stopped(self) -> bool:
        """Return whether the client has stopped reading, or is gone."""
        ...


class StreamOwner(Protocol):
    """What a stream reports to its connection."""

    def was_read(self, size: int) -> None:
        """Called when frames of `size` bytes no longer wait."""
        ...

    def reader_changed(self, stream: EventStream) -> None:
        """Called when a reader was attached or has left."""
        ...

    def delay_changed(self, stream: EventStream) -> None:
        """Called when `delays` has changed."""
        ...


class EventStream:
    """The frames for one stream, in order, until a reader has sent them.

    `session` is None for the stream of the connection. A stream is `provisional` while the agent
    has not mentioned its session. It `delays` the agent while its reader is behind but reads: a
    reader that stops does not delay it, until the connection holds too much.
    """

    def __init__(self, session: str | None, owner: StreamOwner, *, provisional: bool) -> None:
        self.session = session
        self.provisional = provisional
        self.size: int = 0  # bytes that were not sent
        self.reader: Reader | None = None
        self.delays: bool = False
        self.ended: bool = False
        self._owner = owner
        self._frames: deque[Frame] = deque()
        self._taken: list[Frame] = []  # by the reader, which sends them
        self._dropped = False
        self._put = 0  # frames so far
        self._sent = 0
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        self._settling: asyncio.TimerHandle | None = None
        self._slow_check: asyncio.TimerHandle | None = None
        self._stalled = False

    def put(self, frames: Sequence[Frame], size: int) -> None:
        """Append frames of `size` bytes together."""
        if self.ended:
            self._owner.was_read(size)
            return
        self._frames += frames
        self._put += len(frames)
        self.size += size
        if self.reader is not None:
            self.reader.wake()
            if self.size > HIGH_BYTES and not self.delays and not self._stalled:
                self._set_delays(True)
                self._check_later()

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call back `SETTLE_S` after everything that was put so far has been sent.

        It is called at once if the stream ends, or if the reader leaves and nothing waits for it.
        A client may read two streams in any order: without the pause, the official TypeScript
        client often has the later message first.
        """
        if self.ended:
            callback()
            return
        self._marks.append((self._put, callback))
        self._settle()

    def end(self, *, drop: bool = False) -> None:
        """End after what was put, or at once if `drop`."""
        self.ended = True
        if drop and not self._dropped:
            self._dropped = True
            size, self.size = self.size, 0
            self._frames.clear()
            self._taken = []
            self._owner.was_read(size)
        self.release_marks()
        self._set_delays(False)
        if self.reader is not None:
            if drop:
                self.reader.leave()
            else:
                self.reader.wake()

    def release_marks(self) -> None:
        """Make all callbacks of `when_sent` now."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        while self._marks:
            self._marks.popleft()[1]()

    # For the reader.

    def attach(self, reader: Reader) -> None:
        """Let a reader take the frames, in place of the present one."""
        if self.reader is not None:
            self.reader.leave()
            self._put_back()
        self.reader = reader
        self._owner.reader_changed(self)

    def detach(self, reader: Reader) -> None:
        """Remove a reader; what it has taken and not sent waits for the next one."""
        if self.reader is reader:
            self._put_back()
            self.reader = None
            self._stalled = False
            self._set_delays(False)
            if not self.size:
                self.release_marks()
            self._owner.reader_changed(self)

    def take(self) -> list[Frame]:
        """Remove the first frames, up to `SEND_BYTES` of them and at least one if there is one."""
        frames = self._frames
        if not frames:
            return []
        first = frames.popleft()
        taken = [first]
        left = SEND_BYTES - len(first)
        while frames and (left := left - len(frames[0])) >= 0:
            taken.append(frames.popleft())
        self._taken = taken
        return taken

    def count_sent(self) -> None:
        """Count the frames that were taken as sent."""
        taken, self._taken = self._taken, []
        size = sum(map(len, taken))
        self._sent += len(taken)
        self.size -= size
        self._stalled = False
        if self.delays and self.size <= LOW_BYTES:
            self._set_delays(False)
        self._owner.was_read(size)
        self._settle()

    def _settle(self) -> None:
        """Make the callbacks for what has been sent, after a pause."""
        if self._settling is None and self._marks and self._marks[0][0] <= self._sent:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_S, self._release_sent)

    def _release_sent(self) -> None:
        self._settling = None
        while self._marks and self._marks[0][0] <= self._sent:
            self._marks.popleft()[1]()

    def _put_back(self) -> None:
        self._frames.extendleft(reversed(self._taken))
        self._taken = []

    # How fast the reader is.

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._slow_check = loop.call_later(SLOW_S, self._check, self._sent)

    def _check(self, sent_before: int) -> None:
        if self._sent != sent_before:
            self._check_later()
        else:
            self._stalled = True
            self._set_delays(False)

    def _set_delays(self, delays: bool) -> None:
        if self.delays is delays:
            return
        self.delays = delays
        if self._slow_check is not None:
            self._slow_check.cancel()
            self._slow_check = None
        self._owner.delay_changed(self)


# Sends a stream of events as the response of a GET.

STOPPED_S = 5.0  # a reader that takes nothing for so long can be replaced
_END_S = 1.0  # for the end of a response
_COMMENT = b":\n\n"  # R-HTTP-17, R-HTTP-40


class StreamReader:
    """The reader of a stream until the client leaves, the stream ends or another replaces it."""

    def __init__(
        self,
        stream: EventStream,
        receive: Receive,
        send: Send,
        *,
        keepalive_s: float,
        stall_s: float,
    ) -> None:
        self._stream = stream
        self._receive = receive
        self._asgi_send = send
        self._keepalive_s = keepalive_s
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle
        self._sending_since: float | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._needs_comment = False
        self._quiet_since = self._loop.time()
        self._disconnected = False
        self._left = False
        self._cancelled = False

    async def run(self, start: Event) -> None:
        """Send the event that starts the response, then the frames of the stream."""
        self._task = asyncio.current_task()
        watching = asyncio.create_task(self._watch(), name="accord watch a reader")
        self._timer = self._loop.call_later(self._keepalive_s, self._keep_alive)
        try:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": _COMMENT, "more_body": True})
            await self._send_all()
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
        finally:
            self._timer.cancel()
            watching.cancel()
            self._stream.detach(self)
        await self._take_back_cancel()
        await asyncio.wait([watching])
        await self._end()

    async def _take_back_cancel(self) -> None:
        """Continue after `leave` has cancelled a `send`."""
        if self._cancelled and self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # raises if the `send` had returned just before
            if self._task.uncancel():
                raise asyncio.CancelledError  # the server has cancelled this request, too

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        if self._sending_since is not None and self._task is not None:
            self._cancelled = True
            self._task.cancel()
        self.wake()

    def has_stopped(self) -> bool:
        if self._left:
            return True
        since = self._sending_since
        return since is not None and self._loop.time() - since >= STOPPED_S

    async def _send_all(self) -> None:
        stream = self._stream
        while not self._left:
            if taken := stream.take():
                body = events_of(taken)
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
                # Servers report that a client is gone to `receive` only.
                await asyncio.sleep(0)
                if not self._left:
                    stream.count_sent()
            elif stream.ended:
                return
            elif self._needs_comment:
                self._needs_comment = False
                await self._send(
                    {"type": "http.response.body", "body": _COMMENT, "more_body": True}
                )
            else:
                self._waiting = self._loop.create_future()
                try:
                    await self._waiting
                finally:
                    self._waiting = None

    async def _send(self, event: Event) -> None:
        self._sending_since = self._loop.time()
        try:
            await self._asgi_send(event)
        except Exception:  # noqa: BLE001  # servers raise what they like when a client is gone
            self._left = self._disconnected = True
        finally:
            self._sending_since = None
            self._quiet_since = self._loop.time()

    async def _end(self) -> None:
        """End the response in order, if the client still reads it."""
        if not self._disconnected:
            with suppress(TimeoutError, Exception):
                async with asyncio.timeout(_END_S):
                    await self._asgi_send(
                        {"type": "http.response.body", "body": b"", "more_body": False}
                    )

    async def _watch(self) -> None:
        """Leave when the client disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        self.leave()

    def _keep_alive(self) -> None:
        """Send a comment if nothing was sent in the last interval; leave if the client stalls."""
        since = self._sending_since
        if since is not None and self._loop.time() - since >= self._stall_s:
            self.leave()
            return
        left = self._quiet_since + self._keepalive_s - self._loop.time()
        if left <= 0:
            self._needs_comment = True
            self.wake()
            left = self._keepalive_s
        self._timer = self._loop.call_later(left, self._keep_alive)


def events_of(frames: Sequence[Frame]) -> bytes:
    """Return the events of frames (R-HTTP-28); line breaks in a frame are white space."""
    body = b"data: " + b"\n\ndata: ".join(frames) + b"\n\n"
    if b"\r" in body or body.count(b"\n") != 2 * len(frames):
        frames = [bytes(frame).translate(_WITHOUT_BREAKS) for frame in frames]
        body = b"data: " + b"\n\ndata: ".join(frames) + b"\n\n"
    return body


_WITHOUT_BREAKS = bytes.maketrans(b"\r\n", b"  ")
