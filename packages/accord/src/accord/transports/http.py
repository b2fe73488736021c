"""The streamable HTTP transport: a client's connection to a remote agent.

`http` returns what connects. `HttpTransport` sends frames by POST, in the order of `PostQueues`,
and receives them on the streams of `EventStreams`: one for the connection, and one for each
session.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, structs

from accord.errors import ConnectionClosed, ConnectionLost, ConnectionRefused, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.base import (
    HIGH_BYTES,
    LOW_BYTES,
    Frame,
    NullReceiver,
    Receiver,
    Transport,
    TransportFactory,
)
from accord.transports.http_client import HttpClient, HttpResponse
from accord.transports.http_messages import (
    OPENS_SESSION,
    REATTACHES,
    EventReader,
    Inbox,
    Incoming,
    Outgoing,
    error_frame,
    read_incoming,
    read_outgoing,
    session_of_result,
    session_of_subagent,
    version_of,
)
from accord.transports.registry import (
    REMOTE_FRAME_BYTES,
    CookieStore,
    RemoteOptions,
    advice_for,
    redirect_error,
    remote_url,
)

DELETE_S = 2.0
QUIET_S = 0.05  # of a session's stream, before its history counts as complete
HISTORY_S = 30.0  # for the history of a session to arrive
_WITHOUT_SESSION = frozenset(("session/load", "session/resume", "session/delete", "session/close"))
_ENDS_SESSION = frozenset(("session/delete", "session/close"))
_CONNECTION_GONE = (401, 403, 410)  # on a POST (R-HTTP-30)


def http(
    url: str, options: RemoteOptions | None = None, *, frame_bytes: int = REMOTE_FRAME_BYTES
) -> TransportFactory:
    """Return what connects to an agent at an `http://` or `https://` URL by streamable HTTP.

    An empty path means `/acp`. Redirects are not followed. Raises `ValueError` for a URL that
    must not be used.
    """
    options = options or RemoteOptions()
    if options.cookies is None:  # transports of one factory share the cookies
        options = structs.replace(options, cookies=CookieStore())
    address = remote_url(url, options)
    if urlsplit(address).scheme.lower() not in ("http", "https"):
        raise ValueError(f"Expected a URL with http or https, got {excerpt(url)!r}")
    return lambda: HttpTransport(address, options, frame_bytes=frame_bytes)


class _Request(Struct):
    """A request of this side that has no answer yet."""

    method: str
    session: str | None


class HttpTransport(Transport):
    """A connection to a streamable HTTP server: POST sends, event streams receive.

    The first message must be `initialize`; its POST creates the connection. `connection_id` is what
    the server calls it. Requests and notifications of one session are sent in order, answers in an
    order of their own, so that a POST that the server holds back delays no answer.
    """

    def __init__(
        self, url: str, options: RemoteOptions, *, frame_bytes: int = REMOTE_FRAME_BYTES
    ) -> None:
        self.frame_bytes = frame_bytes
        self.connection_id: str | None = None
        self._inbox = Inbox(frame_bytes)
        self.may_read: asyncio.Event = self._inbox.may_read
        self._url = url
        self._where = plain_url(url)
        cookies = options.cookies or CookieStore()
        self._posts = HttpClient(url, options, cookies)
        # Long streams must not take the place of short requests (R-HTTP-38).
        self._gets = HttpClient(url, options, cookies)
        self._streams = EventStreams(self._gets, self, url)
        self._ends_when_cut = options.ends_when_cut
        self._was_cut = False
        self._version: int | None = None  # of the protocol
        self._was_initialized = False  # `initialize` was sent
        self._queues = PostQueues(self._send, self._spawn, self._now_writable)
        self._requests: dict[bytes, _Request] = {}  # of this side, without an answer
        self._routes: dict[bytes, str] = {}  # the stream that a request of the agent came on
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed: asyncio.Future[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        self._inbox.receiver = receiver

    def write(self, frames: Sequence[Frame]) -> None:
        if self._closed is not None or self._inbox.has_ended:
            return
        for frame in frames:
            message = read_outgoing(frame)
            if message.method == "initialize":
                self._was_initialized = True
                self._spawn(self._initialize(message, frame))
            elif not self._was_initialized:
                self._refuse_early(message)
            else:
                self._enqueue(message, frame)

    @property
    def congested(self) -> bool:
        return self._closed is None and self._queues.congested

    def pause_reading(self) -> None:
        self.may_read.clear()

    def resume_reading(self) -> None:
        self._inbox.resume()

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._inbox.receiver = NullReceiver()
        try:
            await self._close()
        finally:
            self._closed.set_result(None)

    async def _close(self) -> None:
        self.may_read.set()
        if not self._inbox.has_ended:
            await self._queues.flush()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._streams.aclose()
        await self._delete(self.connection_id)
        await self._gets.aclose()
        await self._posts.aclose()

    async def _delete(self, connection_id: str | None) -> None:
        """Tell the server that a connection has ended (R-HTTP-32)."""
        is_lost = isinstance(self._inbox.error, ConnectionLost) and not self._was_cut
        if connection_id is None or is_lost:
            return
        headers = {**self.request_headers(None), "Acp-Connection-Id": connection_id}
        with suppress(TimeoutError, TransportError):
            async with asyncio.timeout(DELETE_S):
                response = await self._posts.send("DELETE", headers)
                await response.aclose()

    # Sending.

    def request_headers(self, session: str | None) -> dict[str, str]:
        """Return the headers of a request in a session."""
        headers: dict[str, str] = {}
        if self.connection_id is not None:
            headers["Acp-Connection-Id"] = self.connection_id
        if session is not None:
            headers["Acp-Session-Id"] = session
        if self._version is not None:
            headers["Acp-Protocol-Version"] = str(self._version)
        return headers

    def _refuse_early(self, message: Outgoing) -> None:
        """Refuse a message before `initialize`: there is nothing to send it to."""
        log.debug("! dropped %r before initialize", message.method)
        if message.kind == "request" and message.id is not None:
            self._inbox.put([error_frame(message.id, "The first message must be initialize", {})])

    def _enqueue(self, message: Outgoing, frame: Frame) -> None:
        session = message.session
        if message.id is not None:
            if message.kind == "answer":
                # The answer belongs to the stream that the request came on (R-HTTP-36).
                session = self._routes.pop(message.id, None)
                message = structs.replace(message, session=session)
            else:
                self._requests[message.id] = _Request(message.method, session)
        elif message.cancels is not None:
            # Sent after the request that it cancels, but without its session (R-HTTP-20).
            cancelled = self._requests.get(message.cancels)
            session = None if cancelled is None else cancelled.session
        self._queues.add(message, frame, session)

    def _now_writable(self) -> None:
        self._inbox.receiver.writable()

    async def _send(self, message: Outgoing, frame: Frame) -> None:
        """Send a message; fail it, or the connection, if the server refuses it."""
        session = message.session
        if session is not None and message.kind != "answer":
            stream = self._streams.open(session, again=message.method in REATTACHES)
            await stream.settled.wait()
            if stream.state == "failed":
                self._fail_message(message, stream.why, _failure(stream))
                return
            if stream.state == "absent" and message.method in _WITHOUT_SESSION:
                session = None  # R-HTTP-16
        try:
            response = await self._post(session, frame)
            try:
                unknown = response.status == 404 and session is not None
                if unknown and message.method in _WITHOUT_SESSION:
                    await response.aclose()
                    session = None
                    response = await self._post(None, frame)
                await self._accepted(message, session, response)
            finally:
                await response.aclose()
        except TransportError as exc:
            self._end(exc)

    def _post(self, session: str | None, frame: Frame) -> Coroutine[Any, Any, HttpResponse]:
        headers = self.request_headers(session)
        headers["Content-Type"] = "application/json"
        headers["Accept"] = "application/json, text/event-stream"
        return self._posts.send("POST", headers, bytes(frame))

    async def _accepted(
        self, message: Outgoing, session: str | None, response: HttpResponse
    ) -> None:
        """Handle the response to a POST."""
        status = response.status
        if not response.is_success:
            await self._refused_post(message, session, response)
        elif response.content_type == "text/event-stream":
            await self._read_answers(message, response)
        elif status not in (202, 204) or response.content_type == "application/json":
            body = await response.read(self.frame_bytes)
            if len(body) > self.frame_bytes:
                self.stream_refused(body[:4096])
            elif body.lstrip().startswith(b"{"):
                self.stream_received(session, [body])
        else:
            await response.read(0)

    async def _read_answers(self, message: Outgoing, response: HttpResponse) -> None:
        """Read the event stream that answers a POST, until the answer has come."""
        reader = EventReader(self.frame_bytes)
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                self.stream_received(message.session, reader.feed(chunk))
                while reader.refused:
                    self.stream_refused(reader.refused.pop(0))
                if message.id not in self._requests:
                    return
                await self.may_read.wait()
        if message.id is not None and message.id in self._requests:
            log.debug("! an event stream has ended without the answer to %s", message.method)

    async def _refused_post(
        self, message: Outgoing, session: str | None, response: HttpResponse
    ) -> None:
        status = response.status
        if 300 <= status < 400:
            raise TransportError(redirect_error(self._url, response.header("Location")))
        body = await response.read(_ERROR_BYTES)
        what = one_line(message.method) if message.method else "an answer"
        text = f"{self._where} refused {excerpt(what)} with status {status}"
        text += advice_for(status, response.reason, _404=_UNKNOWN_SESSION)
        is_unknown = status == 404 and (session is None or self._ends_when_cut)
        if status in _CONNECTION_GONE or is_unknown:
            if status == 404:
                text = f"{self._where} does not know the connection any more (status 404)"
            raise ConnectionLost(text)
        data: dict[str, Any] = {"status": status, "body": _text(body)}
        if status in (404, 409) and session is not None:
            data["kind"] = "session"  # R-HTTP-37
            if status == 409:
                self._fail_session(session, text, status)
        elif message.kind != "request":
            raise ConnectionLost(text)
        self._fail_message(message, text, data)

    def _fail_message(self, message: Outgoing, why: str, data: dict[str, Any]) -> None:
        """Fail one message; only a request has a caller that waits."""
        if message.kind == "request" and message.id is not None:
            self._fail_request(message.id, why, data)
        else:
            log.warning("! %s was not delivered: %s", excerpt(message.method) or "an answer", why)

    def _fail_request(self, request_id: bytes, why: str, data: dict[str, Any]) -> None:
        if self._requests.pop(request_id, None) is not None:
            self._inbox.put([error_frame(request_id, why, data)])

    # The first request.

    async def _initialize(self, message: Outgoing, frame: Frame) -> None:
        """Create the connection, or repeat `initialize` on it (R-HTTP-05)."""
        if message.id is not None:
            self._requests[message.id] = _Request("initialize", None)
        old = self.connection_id
        if old is not None and self._version is None:
            self.connection_id = None  # it was refused: start a new one
        try:
            response = await self._post(None, frame)
            try:
                await self._initialized(message, response, old)
            finally:
                await response.aclose()
        except TransportError as exc:
            self._end(exc)

    async def _initialized(
        self, message: Outgoing, response: HttpResponse, old: str | None
    ) -> None:
        status = response.status
        if 300 <= status < 400:
            target = response.header("Location")
            raise ConnectionRefused(redirect_error(self._url, target), status=status)
        if not response.is_success:
            body = await response.read(_ERROR_BYTES)
            text = f"{self._where} refused the connection with status {status}"
            text += advice_for(status, response.reason, _426=_NO_HTTP)
            if self.connection_id is None:
                raise ConnectionRefused(text, status=status)
            self._fail_message(message, text, {"status": status, "body": _text(body)})
            return
        answer = await read_initialized(response, message.id, self.frame_bytes, self._where)
        new = answer.connection_id
        if answer.version is not None:
            self._version = answer.version
            if new is None and self.connection_id is None:
                raise TransportError(
                    f"{self._where} answered initialize without the header Acp-Connection-Id"
                )
        if new is not None and new != old:
            self.connection_id = new
            if old is not None:
                self._streams.close(None)
                self._spawn(self._delete(old))
        if answer.version is not None:
            stream = self._streams.open(None)
            await stream.settled.wait()
            if stream.state == "failed":
                return
        self.stream_received(None, [answer.frame])
        if self.connection_id is not None:
            self._queues.may_send.set()

    # Receiving: called by the streams.

    def stream_received(self, session: str | None, frames: Sequence[Frame]) -> None:
        """Deliver the frames of one read, and note what they tell about sessions."""
        arrived: list[Frame] = []
        for frame in frames:
            if len(frame) > self.frame_bytes:
                self.stream_refused(bytes(frame[:4096]))
                continue
            incoming = read_incoming(frame)
            if incoming is None or not self._is_held(session, incoming, frame):
                arrived.append(frame)
        self._inbox.put(arrived)

    def stream_refused(self, head: bytes) -> None:
        """Report an event over the limit."""
        self._inbox.refuse(head)

    def stream_cut(self, session: str | None, why: str) -> None:
        """Fail the requests whose answers may be lost (R-HTTP-42), or the connection."""
        if self._ends_when_cut:
            self._was_cut = True
            self._end(ConnectionLost(f"An event stream of {self._where} was cut: {why}"))
            return
        for request_id, request in list(self._requests.items()):
            reattaches = session is None and request.method in REATTACHES
            if request.session == session or reattaches:
                data = {"kind": "connection" if session is None else "session"}
                self._fail_request(request_id, f"The answer may be lost: {why}", data)

    def stream_failed(self, session: str | None, why: str, status: int | None) -> None:
        """Fail the requests of a session whose stream does not continue (R-HTTP-29, 31)."""
        if self._ends_when_cut and status in (None, 404):
            # The server may be another one, which knows neither the session nor the connection.
            self._end(ConnectionLost(why))
            return
        data: dict[str, Any] = {"kind": "session"}
        if status is not None:
            data["status"] = status
        for request_id, request in list(self._requests.items()):
            if request.session == session:
                self._fail_request(request_id, why, data)

    def connection_refused(self, error: TransportError) -> None:
        """End the connection: the server does not serve it any more."""
        self._end(error)

    def _fail_session(self, session: str, why: str, status: int) -> None:
        """Fail a session until it is loaded or resumed (R-HTTP-29)."""
        self._streams.fail(session, why, status)
        self.stream_failed(session, why, status)

    def _is_held(self, session: str | None, incoming: Incoming, frame: Frame) -> bool:
        """Note a message with an id; return whether its delivery must wait."""
        if incoming.method is not None:
            if incoming.id is None:
                if (child := session_of_subagent(incoming.body)) is not None:
                    self._streams.open(child)  # R-HTTP-33
            elif session is not None:
                self._routes[incoming.id] = session
            return False
        if incoming.id is None:
            return False
        request = self._requests.pop(incoming.id, None)
        if request is None:
            return False
        if request.method in OPENS_SESSION:
            if (opened := session_of_result(incoming.body)) is not None:
                self._streams.open(opened, again=True)  # R-HTTP-15
        elif request.method in _ENDS_SESSION and request.session is not None:
            self._streams.close(request.session)
        elif request.method in REATTACHES and request.session is not None:
            stream = self._streams.find(request.session)
            if stream is not None and stream.state == "absent":
                self._streams.open(request.session)
            elif stream is not None and stream.state == "open" and session != request.session:
                self._spawn(self._deliver_after_history(stream, frame))
                return True
        return False

    async def _deliver_after_history(self, stream: EventStream, frame: Frame) -> None:
        """Deliver the answer to `session/load` when the stream of the session is quiet.

        The answer comes on another stream than the history, so it may arrive before it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (now := loop.time()) < began + HISTORY_S:
            await self.may_read.wait()
            quiet_from = max(began, stream.last_frame_at)
            if now - quiet_from >= QUIET_S:
                break
            await asyncio.sleep(quiet_from + QUIET_S - now)
        self._inbox.put([frame])

    # The end.

    def _end(self, error: TransportError) -> None:
        """End the connection: nothing can be sent or received any more."""
        if self._inbox.has_ended or self._closed is not None:
            return
        self._inbox.end(error)
        self._queues.clear()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guard(work), name="accord http")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # cancelled before its first step
        return task

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as exc:
            log.exception("! the connection to %s failed", self._where)
            self._end(ConnectionLost(f"The connection to {self._where} failed: {exc!r}"))


_NO_HTTP = "the server accepts WebSocket connections only: use ws:// or wss://"
_UNKNOWN_SESSION = "the server does not know the session"


def _failure(stream: EventStream) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": "session"}
    if stream.status is not None:
        data["status"] = stream.status
    return data


def _text(body: bytes) -> str:
    return body[:_ERROR_BYTES].decode("utf-8", "replace")


# The answer to `initialize`, which creates a connection.


class Initialized(Struct, frozen=True):
    """The answer to `initialize`; `version` is None if it is an error."""

    frame: bytes
    connection_id: str | None
    version: int | None


async def read_initialized(
    response: HttpResponse, request_id: bytes | None, frame_bytes: int, where: str
) -> Initialized:
    """Read the answer in a response with status 2xx; raise `TransportError` without one."""
    if response.content_type == "text/event-stream":
        frame = await _first_answer(response, request_id, frame_bytes)
    else:
        frame = await response.read(frame_bytes)
    if len(frame) > frame_bytes:
        raise TransportError(f"{where}: the answer to initialize exceeds {frame_bytes} bytes")
    answer = read_incoming(frame)
    if answer is None or answer.method is not None or answer.id != request_id:
        raise TransportError(
            f"{where} did not answer initialize: this address is not that of an agent"
        )
    connection_id = response.header("Acp-Connection-Id")
    return Initialized(frame, connection_id, version_of(answer.body))


async def _first_answer(
    response: HttpResponse, request_id: bytes | None, frame_bytes: int
) -> bytes:
    reader = EventReader(frame_bytes)
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            for frame in reader.feed(chunk):
                incoming = read_incoming(frame)
                if incoming is not None and incoming.id == request_id:
                    return bytes(frame)
    return b""


# The order of messages that are sent by POST.

FLUSH_S = 2.0  # without progress, for the server to accept what was written before `aclose`
CLOSE_S = 10.0  # for all of it

_Key: TypeAlias = tuple[bool, str | None]  # whether it is an answer; the session


class PostQueues:
    """Sends the messages of each session one after another, and answers apart from them.

    `send` sends one message and returns once it is accepted; `spawn` runs a coroutine as a task.
    A server may hold back the POST of a request: the answers that it waits for still arrive.
    """

    def __init__(
        self,
        send: Callable[[Outgoing, Frame], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        writable: Callable[[], None],
    ) -> None:
        self.congested: bool = False
        self.may_send: asyncio.Event = asyncio.Event()
        self._send = send
        self._spawn = spawn
        self._writable = writable
        self._queues: dict[_Key, deque[tuple[Outgoing, Frame]]] = {}
        self._bytes = 0  # that wait
        self._pending = 0  # messages that were added and not yet accepted
        self._accepted = 0
        self._all_sent = asyncio.Event()
        self._all_sent.set()

    def add(self, message: Outgoing, frame: Frame, session: str | None) -> None:
        """Send a message after those of the same kind and session."""
        key = (message.kind == "answer", session)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            self._spawn(self._send_all(key, queue))
        queue.append((message, frame))
        self._pending += 1
        self._all_sent.clear()
        self._bytes += len(frame)
        self.congested = self.congested or self._bytes > HIGH_BYTES

    def clear(self) -> None:
        """Drop the messages that wait: the connection has ended."""
        for queue in self._queues.values():
            queue.clear()
        self._pending = 0
        self._all_sent.set()
        self._count_taken(self._bytes)

    async def flush(self) -> None:
        """Wait until all messages are accepted, as long as the server accepts some."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                before = -1
                while self._accepted > before and not self._all_sent.is_set():
                    before = self._accepted
                    with suppress(TimeoutError):
                        async with asyncio.timeout(FLUSH_S):
                            await self._all_sent.wait()

    async def _send_all(self, key: _Key, queue: deque[tuple[Outgoing, Frame]]) -> None:
        try:
            await self.may_send.wait()
            while queue:
                message, frame = queue.popleft()
                # A message that the server holds back does not count: answers must pass.
                self._count_taken(len(frame))
                await self._send(message, frame)
                self._accepted += 1
                self._pending = max(self._pending - 1, 0)
                if not self._pending:
                    self._all_sent.set()
        finally:
            del self._queues[key]

    def _count_taken(self, size: int) -> None:
        self._bytes -= size
        if self.congested and self._bytes <= LOW_BYTES:
            self.congested = False
            self._writable()


# The event streams of a connection by streamable HTTP: one for it, and one for each session.

log: logging.Logger = logging.getLogger("accord.transports.http")

REOPEN_S = 0.2  # before the first reopening, doubled for each further one (R-HTTP-41)
REOPENINGS = 3  # in a row, without an event
STABLE_S = 0.5  # a stream that stays open this long counts as reopened
CONFLICT_S = 20.0  # the server may not have noticed the end of the old reader
SILENCE_S = 75.0  # five comments of a server that sends one every 15 seconds
_ERROR_BYTES = 8 * 1024

# open: frames may come. absent: the server does not know the session yet. ended: the next message
# opens it again. failed: its session is unusable until it is loaded or resumed (R-HTTP-29).
State: TypeAlias = Literal["opening", "open", "absent", "ended", "failed"]


class EventStream:
    """One stream, which is opened again when it ends."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.state: State = "opening"
        self.why = ""  # it has failed
        self.status: int | None = None  # with which it has failed
        self.settled: asyncio.Event = asyncio.Event()  # the state is not "opening"
        self.last_frame_at: float = 0.0
        self.last_id: str | None = None
        self.task: asyncio.Task[None] | None = None

    def settle(self, state: State) -> None:
        self.state = state
        self.settled.set()


class _Refused(Exception):
    """The server does not open a stream."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class EventStreams:
    """Opens, reads and reopens the streams of one connection."""

    def __init__(self, client: HttpClient, owner: HttpTransport, url: str) -> None:
        self._client = client
        self._owner = owner
        self._url = url
        self._streams: dict[str | None, EventStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def find(self, session: str | None) -> EventStream | None:
        """Return the stream of a session, None if it was never opened."""
        return self._streams.get(session)

    def open(self, session: str | None, *, again: bool = False) -> EventStream:
        """Open a stream unless it is open; `again` also one that has failed."""
        stream = self._streams.get(session)
        if stream is not None and (
            stream.state in ("opening", "open") or (stream.state == "failed" and not again)
        ):
            return stream
        last_id = None if stream is None else stream.last_id
        stream = self._streams[session] = EventStream(session)
        stream.last_id = last_id
        stream.task = asyncio.create_task(self._run(stream), name=f"accord stream {session}")
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)
        return stream

    def close(self, session: str | None) -> None:
        """Stop reading the stream of a session that has ended."""
        stream = self._streams.pop(session, None)
        if stream is not None and stream.task is not None:
            stream.task.cancel()
            stream.settle("ended")

    def fail(self, session: str, why: str, status: int) -> None:
        """Stop reading the stream of a session that the server refuses (R-HTTP-29)."""
        self.close(session)
        stream = self._streams[session] = EventStream(session)
        stream.why, stream.status = why, status
        stream.settle("failed")

    async def aclose(self) -> None:
        """Stop reading all streams."""
        self._closed = True
        for stream in list(self._streams.values()):
            stream.settle("ended")
        self._streams.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, stream: EventStream) -> None:
        """Read a stream, and open it again when it ends, until it fails."""
        loop = asyncio.get_running_loop()
        failures = 0
        delay_s = REOPEN_S
        was_open = False
        conflict_until: float | None = None
        while True:
            began = loop.time()
            retry_s: float | None = None
            try:
                reader = EventReader(self._owner.frame_bytes, stream.last_id)
                async with self._opened(stream) as response:
                    began = loop.time()
                    was_open, conflict_until = True, None
                    received, cut = await self._read(stream, reader, response)
                retry_s = reader.retry_s
                if received or loop.time() - began >= STABLE_S:
                    failures, delay_s = 0, retry_s or REOPEN_S
                if cut is not None and stream.last_id is None:
                    self._owner.stream_cut(stream.session, str(cut))
                why: Exception = cut or ConnectionLost("the server has ended the event stream")
                status = None
            except _Refused as refused:
                status, why = refused.status, refused
                if status == 409:
                    conflict_until = conflict_until or loop.time() + CONFLICT_S
                    if loop.time() < conflict_until:
                        failures = 0
                elif status not in (429, 500, 502, 503, 504):
                    self._refuse(stream, refused, was_open=was_open)
                    return
            except TransportError as exc:  # the server cannot be reached
                status, why = None, exc
            failures += 1
            if failures > REOPENINGS or (conflict_until and loop.time() >= conflict_until):
                self._give_up(stream, f"{why}", status)
                return
            log.debug("= the stream of %s is opened again: %s", _name(stream), why)
            await asyncio.sleep((retry_s or delay_s) * random.uniform(0.75, 1.25))
            delay_s = min(2 * delay_s, 30.0)

    @asynccontextmanager
    async def _opened(self, stream: EventStream) -> AsyncGenerator[HttpResponse, None]:
        headers = self._owner.request_headers(stream.session)
        headers["Accept"] = "text/event-stream"
        headers["Cache-Control"] = "no-cache"
        if stream.last_id is not None:
            headers["Last-Event-ID"] = stream.last_id
        response = await self._client.send("GET", headers)
        try:
            if not response.is_success:
                raise await self._refusal(stream, response)
            if response.content_type != "text/event-stream":
                kind = excerpt(one_line(response.content_type)) or "no content type"
                why = f"{self._what(stream)}: expected an event stream, got {kind}"
                raise _Refused(response.status, why)
            stream.settle("open")
            yield response
        finally:
            await response.aclose()

    async def _read(
        self, stream: EventStream, reader: EventReader, response: HttpResponse
    ) -> tuple[bool, ConnectionLost | None]:
        """Read a response completely; return whether a frame came, and how it was cut off."""
        loop = asyncio.get_running_loop()
        owner = self._owner
        received = False
        try:
            async with asyncio.timeout(None) as silence, aclosing(response.chunks()) as chunks:
                async for chunk in chunks:
                    frames = reader.feed(chunk)
                    stream.last_id = reader.last_id
                    if reader.comments:
                        silence.reschedule(loop.time() + SILENCE_S)
                    if frames:
                        received = True
                        stream.last_frame_at = loop.time()
                        owner.stream_received(stream.session, frames)
                    while reader.refused:
                        received = True
                        owner.stream_refused(reader.refused.pop(0))
                    if not owner.may_read.is_set():
                        silence.reschedule(None)
                        await owner.may_read.wait()
        except ConnectionLost as exc:
            return received, exc
        except TimeoutError:
            return received, ConnectionLost(self._client.lost("the server is silent"))
        return received, None

    async def _refusal(self, stream: EventStream, response: HttpResponse) -> _Refused:
        status = response.status
        if 300 <= status < 400:
            return _Refused(status, redirect_error(self._url, response.header("Location")))
        text = f"{self._what(stream)} was refused with status {status}"
        return _Refused(status, text + advice_for(status, response.reason, _409=_TWO_READERS))

    def _refuse(self, stream: EventStream, refused: _Refused, *, was_open: bool) -> None:
        """End a stream that the server does not open."""
        status = refused.status
        if stream.session is None or status in (401, 410) or 300 <= status < 400:
            stream.settle("failed")
            self._owner.connection_refused(TransportError(str(refused)))
        elif status in (403, 404) and not was_open:
            stream.settle("absent")  # R-HTTP-37
            log.debug("= there is no stream of %s yet: status %d", _name(stream), status)
        else:
            self._give_up(stream, str(refused), status)

    def _give_up(self, stream: EventStream, why: str, status: int | None) -> None:
        if stream.session is None:
            stream.settle("failed")
            self._owner.connection_refused(ConnectionLost(why))
            return
        stream.why, stream.status = why, status
        stream.settle("ended" if status is None else "failed")
        self._owner.stream_failed(stream.session, why, status)

    def _what(self, stream: EventStream) -> str:
        if stream.session is None:
            return "The event stream of the connection"
        return f"The event stream of session {excerpt(one_line(stream.session), 60)}"


_TWO_READERS = "another client reads it"


def _name(stream: EventStream) -> str:
    return "the connection" if stream.session is None else excerpt(one_line(stream.session), 60)
