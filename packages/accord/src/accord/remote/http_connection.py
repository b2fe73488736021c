"""A connection over streamable HTTP, as the transport that the agent is served on."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Sequence

from msgspec import Struct

from accord.errors import ConnectionClosed, ConnectionLost
from accord.remote.access import (
    HttpLimits,
    NetworkTransport,
    Principal,
    Refusal,
)
from accord.remote.http_stream import (
    EventStream,
    MessageHead,
    NotAMessage,
    PostedInput,
    UnreadTotal,
    read_message,
)
from accord.transports.base import Frame, Receiver
from accord.transports.registry import REMOTE_FRAME_BYTES

log: logging.Logger = logging.getLogger("accord.remote")

FLUSH_S = 2.0  # for readers to take what was written before `aclose`
HOLD_S = 5.0  # a response that follows a replay waits so long for a reader to come back
_TRIES = 2  # of `initialize`
RETRY_S = 30.0  # for another `initialize` after one that failed
_ASKED = 10_000  # requests of the agent whose session is remembered
_KNOWN = 10_000  # sessions that the agent has mentioned
_UPDATE = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"sessionId":"([^"\\]+)"'
).match
GONE = Refusal(404, "Unknown connection", kind="connection")
_BUSY = Refusal(429, "Too many requests wait", (("Retry-After", "1"),), "requests")


class InitializeAnswer(Struct, frozen=True):
    """The agent's response to `initialize`."""

    frame: bytes
    failed: bool


class _Request(Struct):
    """A request of the client without a response."""

    method: str
    session: str | None
    has_header: bool
    answer: asyncio.Future[InitializeAnswer | None] | None = None  # to `initialize`


class HttpConnection(NetworkTransport):
    """The frames of POSTs go to the agent; its frames wait in streams, until GETs read them.

    `id` names the connection, which belongs to `principal`. `total` counts what waits in all
    connections of the server.
    """

    def __init__(
        self,
        principal: Principal,
        limits: HttpLimits,
        total: UnreadTotal,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
    ) -> None:
        self.id: str = secrets.token_hex(16)  # T7
        self.principal = principal
        self.frame_bytes = frame_bytes
        self.initialized: bool = False
        self._tries = 0
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._input = PostedInput()
        self._requests: dict[object, _Request] = {}
        self._asked: dict[object, str | None] = {}  # sessions of the agent's requests, by id
        self._known: dict[str, None] = {}
        self._is_first = True  # nothing was written yet
        self._streams: dict[str | None, EventStream] = {}
        self._prefix: bytes | None = None  # of the last update
        self._prefixed: EventStream | None = None  # where it went
        self._unread = 0  # bytes in all streams
        self._total = total
        total.join(self)
        self._reads = 0
        self._full = False
        self._delaying: set[EventStream] = set()
        self._unread_sessions: set[EventStream] = set()
        self._was_congested = False
        self._changed: asyncio.Future[None] | None = None  # `_full`, or everything was sent
        self._posts = 0  # in progress
        self._post_bytes = 0
        self._last_active = self._loop.time()
        self._timers: set[asyncio.TimerHandle] = set()
        self._closed: asyncio.Future[None] | None = None
        self._stream(None)
        if limits.idle_s:
            self._call_later(limits.idle_s, self._check_idle)

    # For the agent.

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        self._input.start(receiver)

    def write(self, frames: Sequence[Frame]) -> None:
        if self.is_over:
            return
        batch: list[Frame] = []
        size = 0
        for frame in frames:
            prefix = self._prefix
            if prefix is not None and frame.startswith(prefix):
                batch.append(frame)
                size += len(frame)
                continue
            if batch and self._prefixed is not None:
                self._put(self._prefixed, batch, size)
                batch, size = [], 0
            self._route(frame)
        if batch and self._prefixed is not None:
            self._put(self._prefixed, batch, size)
        self._was_congested = self.congested

    @property
    def congested(self) -> bool:
        return self._full or bool(self._delaying)

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait for the client to read."""
        return self._unread

    def pause_reading(self) -> None:
        self._input.pause()

    def resume_reading(self) -> None:
        self._input.resume()

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        for stream in list(self._streams.values()):
            stream.release_marks()  # adds to another stream
        self._closed = self._loop.create_future()
        self._input.close()
        self._release_waiting()
        try:
            await self._flush()
        finally:
            for stream in list(self._streams.values()):
                stream.end(drop=True)
            for timer in self._timers:
                timer.cancel()
            left, self._unread = self._unread, 0
            self._total.leave(self, left)
            self._closed.set_result(None)

    async def _flush(self) -> None:
        """Wait until readers have taken what was written, for at most `FLUSH_S`."""
        for stream in self._streams.values():
            stream.end(drop=stream.reader is None)
        until = self._loop.time() + FLUSH_S
        while any(stream.reader is not None for stream in self._streams.values()):
            left = until - self._loop.time()
            if left <= 0:
                return
            self._changed = self._loop.create_future()
            await asyncio.wait([self._changed], timeout=left)

    # What the client sends.

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended: it accepts and sends nothing."""
        return self._closed is not None or self._input.ended

    @property
    def may_initialize(self) -> bool:
        """Whether `initialize` may be sent: at first, and once more after it has failed."""
        return not self.initialized and self._tries < _TRIES and not self._requests

    async def post(
        self, head: MessageHead, session: str | None, has_header: bool, body: bytes
    ) -> Refusal | None:
        """Pass a message to the agent; return once it was handed over, or why it was not."""
        if head.kind == "response":
            route = self._asked.get(head.id)
            if has_header and route is not None and route != session:
                return Refusal(400, "The session is not that of the request", kind="session")
            self._asked.pop(head.id, None)
        limits = self._limits
        if self._posts >= limits.waiting_posts or self._post_bytes > limits.unread_bytes:
            return _BUSY
        self._posts += 1
        self._post_bytes += len(body)
        try:
            if head.kind == "request" and not head.has_null_id:
                if len(self._requests) >= limits.requests:
                    return _BUSY
                while self._full and not self.is_over:  # R-HTTP-06: only requests are held
                    await self._wait_for_change()
                self._requests[head.id] = _Request(head.method, session, has_header)
            return await self._deliver(body)
        finally:
            self._posts -= 1
            self._post_bytes -= len(body)
            self._last_active = self._loop.time()

    async def initialize(self, head: MessageHead, body: bytes) -> InitializeAnswer | Refusal | None:
        """Pass `initialize` to the agent; return its response, or None if it gives none."""
        answer: asyncio.Future[InitializeAnswer | None] = self._loop.create_future()
        self._requests[head.id] = _Request(head.method, None, False, answer)
        self._tries += 1
        if (refusal := await self._deliver(body)) is not None:
            return refusal
        done, _ = await asyncio.wait([answer], timeout=self._limits.initialize_s)
        found = answer.result() if done else None
        if found is not None:
            self.initialized = not found.failed
            if found.failed:
                wait_s = RETRY_S if self._tries < _TRIES else 0
                self._call_later(wait_s, self._end_unless_initialized)
        return found

    def end(self, error: Exception | None = None) -> None:
        """End the input; what was not read is dropped."""
        if self._input.ended:
            return
        self._input.end(error)
        self._release_waiting()
        for stream in list(self._streams.values()):
            stream.end(drop=True)

    async def _deliver(self, body: bytes) -> Refusal | None:
        return None if await self._input.deliver(body) else GONE

    def _release_waiting(self) -> None:
        """Let the requests that wait notice that the connection has ended."""
        for request in self._requests.values():
            _resolve(request.answer, None)
        self._wake()

    # What the client reads.

    def open_stream(self, session: str | None) -> EventStream | Refusal:
        """Return the stream for a GET, made on demand."""
        stream = self._streams.get(session)
        if stream is not None:
            return stream
        if session in self._known:
            return self._stream(session)
        count = sum(stream.provisional for stream in self._streams.values())
        if count >= self._limits.provisional_streams:
            return Refusal(429, "Too many streams", (("Retry-After", "5"),), "streams")
        stream = self._stream(session, provisional=True)
        self._call_later(self._limits.provisional_s, self._drop_provisional, stream)
        return stream

    def was_read(self, size: int) -> None:
        self._unread -= size
        self._reads += 1
        self._total.remove(size)
        self._check_full()

    def total_fell(self) -> None:
        self._check_full()

    def _check_full(self) -> None:
        if self._full and not self._holds_too_much():
            self._full = False
            self._wake()
            self._tell_writable()

    def _holds_too_much(self) -> bool:
        unread = self._unread
        return unread > self._limits.unread_bytes or self._total.is_over(self, unread)

    def reader_changed(self, stream: EventStream) -> None:
        self._last_active = self._loop.time()
        self._wake()
        if stream.reader is not None:
            self._unread_sessions.discard(stream)
        elif self._streams.get(stream.session) is not stream:
            pass
        elif stream.size:
            self._note_unread(stream)
            self._call_later(HOLD_S, stream.release_marks)
        elif stream.session is not None and not stream.provisional:
            self._forget(stream)

    def delay_changed(self, stream: EventStream) -> None:
        if stream.delays:
            self._delaying.add(stream)
        else:
            self._delaying.discard(stream)
            self._tell_writable()

    def _stream(self, session: str | None, *, provisional: bool = False) -> EventStream:
        stream = self._streams.get(session)
        if stream is None:
            stream = EventStream(session, self, provisional=provisional)
            self._streams[session] = stream
        return stream

    def _forget(self, stream: EventStream) -> None:
        del self._streams[stream.session]
        self._unread_sessions.discard(stream)
        if self._prefixed is stream:
            self._prefix = self._prefixed = None

    def _know(self, session: str) -> None:
        """Remember a session that the agent has mentioned."""
        if session not in self._known:
            self._known[session] = None
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
            if (stream := self._streams.get(session)) is not None:
                stream.provisional = False

    def _drop_provisional(self, stream: EventStream) -> None:
        if not stream.provisional or self._streams.get(stream.session) is not stream:
            return
        if any(request.session == stream.session for request in self._requests.values()):
            self._call_later(self._limits.provisional_s, self._drop_provisional, stream)
        else:
            self._forget(stream)
            stream.end()

    # Where the agent's frames go (R-HTTP-12).

    def _route(self, frame: Frame) -> None:
        if self._is_first:
            self._is_first = False
            self._take_first(frame)
            return
        if (update := _UPDATE(frame)) is not None:
            session = update[1].decode("utf-8", "replace")
            self._know(session)
            stream = self._stream(session)
            self._prefix, self._prefixed = bytes(update[0]), stream
            self._put(stream, (frame,), len(frame))
            return
        try:
            head = read_message(frame)
        except NotAMessage:
            if not frame.isspace() and frame:
                self._put(self._stream(None), (frame,), len(frame))
            return
        if head.kind == "response":
            self._route_response(head, frame)
            return
        if head.kind == "request":
            self._asked[head.id] = head.session
            if len(self._asked) > _ASKED:
                del self._asked[next(iter(self._asked))]
        if head.session is not None:
            self._know(head.session)
        self._put(self._stream(head.session), (frame,), len(frame))

    def _take_first(self, frame: Frame) -> None:
        """Take the response to `initialize`, which must come first (R-HTTP-24)."""
        try:
            head = read_message(frame)
        except NotAMessage:
            head = MessageHead("unknown")
        request = self._requests.get(head.id) if head.kind == "response" else None
        if request is not None and request.answer is not None:
            self._route_response(head, frame)
            return
        for request in self._requests.values():
            _resolve(request.answer, None)

    def _route_response(self, head: MessageHead, frame: Frame) -> None:
        request = self._requests.pop(head.id, None)
        if request is not None and request.answer is not None:
            _resolve(request.answer, InitializeAnswer(bytes(frame), head.failed))
            return
        if head.session is not None:
            self._know(head.session)
        session = None if request is None else request.session
        stream = self._streams.get(session)
        if request is None or session is None:
            self._put(self._stream(None), (frame,), len(frame))
            return
        if request.method in ("session/load", "session/resume"):
            if head.failed:
                if stream is not None and stream.provisional:
                    self._loop.call_soon(self._drop_provisional, stream)
            else:
                self._know(session)
        has_reader = stream is not None and stream.reader is not None
        if request.method == "session/load":
            self._put_after(stream if has_reader else None, frame)
        elif not has_reader and not request.has_header:
            # The client may not have opened the stream yet, and wait for this.
            self._put(self._stream(None), (frame,), len(frame))
        else:
            self._put(self._stream(session), (frame,), len(frame))

    def _put_after(self, replay: EventStream | None, frame: Frame) -> None:
        """Put a response on the connection's stream once the replay was sent."""

        def put() -> None:
            if not self.is_over:
                self._put(self._stream(None), (frame,), len(frame))

        if replay is None:
            put()
        else:
            replay.when_sent(put)

    def _put(self, stream: EventStream, frames: Sequence[Frame], size: int) -> None:
        self._unread += size
        self._total.add(size)
        stream.put(frames, size)
        if stream.reader is None:
            self._note_unread(stream)
        if not self._full and self._holds_too_much():
            self._full = True
            self._call_later(self._limits.stall_s, self._check_stall, self._reads)

    # Limits.

    def _note_unread(self, stream: EventStream) -> None:
        """Count a session that has no reader (R-HTTP-27)."""
        if stream.session is None or self._closed is not None:
            return
        self._unread_sessions.add(stream)
        if len(self._unread_sessions) > self._limits.unread_sessions:
            self._break("more sessions have unread output than allowed")

    def _check_stall(self, reads_before: int) -> None:
        if not self._full:
            return
        if self._reads == reads_before:
            self._break("the client did not read its output in time")
        else:
            self._call_later(self._limits.stall_s, self._check_stall, self._reads)

    def _check_idle(self) -> None:
        """End a connection that is not used (R-HTTP-47)."""
        busy = self._posts or self._requests
        busy = busy or any(stream.reader is not None for stream in self._streams.values())
        now = self._loop.time()
        if busy:
            self._last_active = now
        left = self._last_active + self._limits.idle_s - now
        if left > 0:
            self._call_later(left, self._check_idle)
        else:
            self._break("the connection was not used")

    def _end_unless_initialized(self) -> None:
        if not self.initialized:
            self._break("initialize failed")

    def _break(self, reason: str) -> None:
        if not self.is_over:
            log.info("! %s: %s", self.id, reason)
            self._loop.call_soon(self.end, ConnectionLost(f"The connection was closed: {reason}"))

    # Helpers.

    async def _wait_for_change(self) -> None:
        if self._changed is None or self._changed.done():
            self._changed = self._loop.create_future()
        await asyncio.wait([self._changed])

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _tell_writable(self) -> None:
        if self._was_congested and not self.congested:
            self._was_congested = False
            self._loop.call_soon(self._input.tell_writable)

    def _call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> None:
        def fire() -> None:
            self._timers.discard(timer)
            if not self.is_over:
                call(*args)

        timer = self._loop.call_later(delay_s, fire)
        self._timers.add(timer)


def _resolve(
    answer: asyncio.Future[InitializeAnswer | None] | None, value: InitializeAnswer | None
) -> None:
    if answer is not None and not answer.done():
        answer.set_result(value)
