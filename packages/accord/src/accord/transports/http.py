"""The streamable HTTP transport: a client's connection to a remote agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from accord.errors import ConnectionClosed, ConnectionLost, ConnectionRefused, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.base import (
    Frame,
    NullReceiver,
    Receiver,
    Transport,
    TransportFactory,
)
from accord.transports.cookies import CookieStore
from accord.transports.http_client import HttpClient, HttpResponse
from accord.transports.http_inbox import Inbox
from accord.transports.http_initialize import read_initialized
from accord.transports.http_messages import (
    OPENS_SESSION,
    REATTACHES,
    Incoming,
    Outgoing,
    error_frame,
    read_incoming,
    read_outgoing,
    session_of_result,
    session_of_subagent,
)
from accord.transports.http_posts import PostQueues
from accord.transports.http_status import advice_for, redirect_error
from accord.transports.http_streams import EventStream, EventStreams
from accord.transports.registry import RemoteOptions
from accord.transports.remote_address import REMOTE_FRAME_BYTES, remote_url
from accord.transports.sse import EventReader

log: logging.Logger = logging.getLogger("accord.transports.http")

DELETE_S = 2.0
QUIET_S = 0.05  # of a session's stream, before its history counts as complete
HISTORY_S = 30.0  # for the history of a session to arrive
_ERROR_BYTES = 8 * 1024  # of the body of an error (R-HTTP-49)
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
