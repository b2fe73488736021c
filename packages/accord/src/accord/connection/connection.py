"""A JSON-RPC connection on asyncio.

Handlers that are plain functions are called directly. Coroutines of notifications run in the lane
of their session; each coroutine of a request runs in a task, started in order. The frames of one
read are dispatched together, and those of one iteration of the event loop are written together.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw

from accord.connection.calls import PendingCall, RequestHandlers, reject, resolve
from accord.connection.lanes import Flow, LaneHolder, Lanes, QueuedMessage, QueuedResponse
from accord.connection.limits import FloodLog, Limits
from accord.connection.routes import (
    NO_PARAMS,
    Route,
    Routes,
    StreamedText,
    decode_leniently,
    report_undecodable,
    session_id_of,
    with_trace,
)
from accord.connection.tasks import Tasks, discard_with, ends_process, logged
from accord.errors import (
    BacklogExceeded,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    FrameTooLarge,
    InternalError,
    InvalidRequest,
    RemoteProtocolError,
    RequestError,
    TransportError,
)
from accord.jsonrpc.message import CancelRequest, Message, RequestId, Response, UnexpectedMessage
from accord.jsonrpc.peer import Peer
from accord.transports.base import Frame, Transport
from accord.wire.codec import encode, encode_into

_TURN_BYTES = 16 * 1024  # one task may send before others run
_FLUSH_BYTES = 64 * 1024  # at most collected for one write
_SENDERS_AT_ONCE = 8


class Outbox:
    """Writes the frames that `take` returns to the transport."""

    def __init__(
        self,
        transport: Transport,
        take: Callable[[], Sequence[Frame]],
        sent: Callable[[Sequence[Frame]], None] | None = None,
    ) -> None:
        self.blocked = False  # the transport is congested
        self.sent = sent  # called with the written frames
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._take = take
        self._due = False
        # The callbacks left in this iteration of the event loop, as asyncio's own loop keeps
        # them. With other loops, every write waits for the end of the iteration.
        self._yet_to_run: deque[object] | None = getattr(self._loop, "_ready", None)
        self._turn_bytes = 0
        self._unsent_bytes = 0
        self._senders: deque[asyncio.Future[None]] = deque()
        self.closed: TransportError | None = None

    def frames_added(self, size: int) -> bool:
        """Count added frames; return True if their sender should call `wait_for_room`."""
        self._unsent_bytes += size
        self._turn_bytes += size
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)
        return self._turn_bytes > _TURN_BYTES or self.blocked

    def flush_soon(self) -> None:
        """Write at the end of this iteration of the event loop."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self.flush)

    def flush_when_idle(self) -> None:
        """Write now if no other callback is due in this iteration, else at its end."""
        if self._yet_to_run is None or self._yet_to_run:
            self.flush_soon()
        else:
            self.flush()

    def defer_flush(self) -> None:
        """Do not schedule a write: the caller calls `flush` in the same iteration."""
        self._due = True

    def flush(self) -> None:
        """Write all frames now."""
        self._due = False
        self._unsent_bytes = 0
        frames = self._take()
        if not frames:
            return
        if self.sent is not None:
            self.sent(frames)
        self._transport.write(frames)
        self.blocked = self._transport.congested

    async def wait_for_room(self) -> None:
        """Let other tasks send, and wait while the transport is congested.

        Raise the error given to `close`.
        """
        self._turn_bytes = 0
        if self._unsent_bytes > _FLUSH_BYTES:
            self.flush()
        if not self.blocked:
            await asyncio.sleep(0)
        while self.blocked and self.closed is None:
            sender: asyncio.Future[None] = self._loop.create_future()
            self._senders.append(sender)
            await sender
        if self.closed is not None:
            raise self.closed

    def resume(self) -> None:
        """Wake waiting senders: the transport is no longer congested."""
        self.blocked = False
        self._wake_some()

    def close(self, error: TransportError) -> None:
        """Make all waiting senders raise an error, now and later."""
        self.closed = error
        self.blocked: bool = False
        while self._senders:
            _wake(self._senders.popleft())

    def _wake_some(self) -> None:
        for _ in range(min(len(self._senders), _SENDERS_AT_ONCE)):
            _wake(self._senders.popleft())
        if self._senders:
            # Runs after the tasks that were just woken.
            self._loop.call_soon(self._wake_more)

    def _wake_more(self) -> None:
        if not self.blocked:
            self._wake_some()


def _wake(sender: asyncio.Future[None]) -> None:
    if not sender.done():
        sender.set_result(None)


log: logging.Logger = logging.getLogger("accord.connection.connection")

_PART_FRAMES = 16

Observer: TypeAlias = Callable[[Literal["received", "sent"], Frame], None]


class Connection:
    """A JSON-RPC connection to one peer over a transport."""

    def __init__(self, transport: Transport, *, limits: Limits | None = None) -> None:
        self.transport = transport
        self.limits: Limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._log = FloodLog(log, self._loop.time)
        self.peer: Peer = Peer(encode, encode_into, frame_bytes=transport.frame_bytes)
        self._tasks = Tasks()
        self._works: set[asyncio.Task[None]] = set()  # started by `spawn`
        self.flow: Flow = Flow(transport, self.limits, self._reject_peer)
        self._lanes = Lanes(
            self._tasks,
            self.flow.backlogs,
            begin=self._begin,
            dropped=self._discard,
            refused=self._reject,
            exceeded=self._fail_session,
            flood_log=self._log,
        )
        self.request_handlers: RequestHandlers = RequestHandlers(
            self, self.peer, self._tasks, self.limits, self._response_queued, self._log
        )
        self._routes: Routes | None = None
        self._shared: Any = None  # the context of notifications
        self._observers: list[Observer] = []
        self._held: list[Message] | None = None
        self._held_bytes = 0
        self._hung_up: TransportError | None = None  # no answer will come
        self._closed: TransportError | None = None  # nothing goes out any more
        self._ended = asyncio.Event()
        self._finishing = False
        self._closing: asyncio.Task[None] | None = None
        self.outbox: Outbox = Outbox(transport, self.peer.frames_to_send)
        self.streamed_text: StreamedText = StreamedText(self._log)
        self.message_bytes = 0  # the size of the params that are being handled

    # Start and end.

    async def start(self, routes: Routes) -> None:
        """Start reading and serving; raise `TransportError` if the transport cannot start."""
        self.serve(routes)
        await self.transport.start(self)
        log.debug("= started")

    def serve(self, routes: Routes) -> None:
        """Use these routes, from the next message on."""
        self._routes = routes
        self._shared = routes.context(None)
        self.streamed_text.serve(routes)

    def refuse_null_ids(self) -> None:
        """Reject requests with a null id from now on (R-GEN-14)."""
        self.peer.null_ids = False

    def hold(self) -> None:
        """Hold incoming requests and notifications until `release`."""
        self._held = []
        self._held_bytes = 0

    def release(self) -> None:
        """Handle the messages that were held, in order."""
        held, self._held = self._held, None
        for message in held or ():
            self._dispatch(message)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connection ends; its exceptions are logged."""
        task = self._tasks.spawn(logged(work), name="accord work")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        discard_with(task, work)

    def observe(self, observer: Observer) -> None:
        """Pass every frame to the observer from now on, in both directions. It must not raise."""
        self._observers.append(observer)
        self.outbox.sent = self._show_sent

    @property
    def has_ended(self) -> bool:
        """Whether the peer has disconnected, so that no response can come."""
        return self._hung_up is not None

    async def wait_ended(self) -> TransportError | None:
        """Wait for `aclose`, or for the peer to disconnect; return the reason."""
        await self._ended.wait()
        return self._closed or self._hung_up

    async def aclose(self) -> None:
        """Close the connection: fail pending calls, cancel handlers, close the transport."""
        if self._closing is None:
            self._fail_everything(ConnectionClosed("The connection was closed"))
            self._closing = self._loop.create_task(self._close(), name="accord close")
        if asyncio.current_task() not in self._tasks:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._tasks.cancel(self.limits.close_timeout_s)
        self.outbox.flush()
        try:
            async with asyncio.timeout(2 * self.limits.close_timeout_s):
                await self.transport.aclose()
        except TimeoutError:
            log.warning("! the transport did not close in time")
        self._ended.set()
        log.debug("x closed")

    def _fail_everything(self, error: TransportError) -> None:
        """Fail all calls and sends, pending and future."""
        if self._closed is None:
            self._closed = error
        self._fail_calls(error)
        self.outbox.close(self._closed)

    def _fail_calls(self, error: TransportError) -> None:
        self._hung_up = self.request_handlers.ended_by = error
        for call in self.peer.receive_eof():
            reject(call, error)

    def _end(self, error: Exception | None) -> None:
        if not self._finishing and self._closing is None:
            self._finishing = True
            self._tasks.spawn(self._finish(error), name="accord finish")

    async def _finish(self, error: Exception | None) -> None:
        """Fail the pending calls after the peer disconnected, and let handlers finish."""
        try:
            reason = await self._why_ended(error)
            log.debug("= the peer hung up, %d requests unanswered", self.peer.unanswered)
            self._fail_calls(reason)
            # The peer may still read their responses.
            await self._wait_for_handlers(self.limits.eof_grace_s)
            self.outbox.flush()
            self._fail_everything(reason)
            self.request_handlers.cancel_where(lambda _method, _params: True)
            await self._lanes.wait_empty(self.limits.drain_s)
            await self._tasks.cancel(self.limits.close_timeout_s)
            self.outbox.flush()
        finally:
            self._ended.set()

    async def _wait_for_handlers(self, timeout_s: float) -> None:
        """Wait for the handlers of requests and for spawned work."""
        deadline = self._loop.time() + timeout_s
        while tasks := self._works | self.request_handlers.tasks:
            left_s = deadline - self._loop.time()
            # Waiting for each separately takes quadratic time.
            _, running = await asyncio.wait(tasks, timeout=max(left_s, 0.0))
            if running:
                return

    async def _why_ended(self, error: Exception | None) -> TransportError:
        reason: Exception | None = None
        try:
            async with asyncio.timeout(self.limits.close_timeout_s):
                reason = await self.transport.exit_error()
        except TimeoutError:
            log.debug("! the transport could not say how the peer ended")
        reason = reason or error
        if isinstance(reason, TransportError):
            return reason
        return ConnectionLost("The peer ended the connection")

    # Sending.

    async def call(
        self,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        *,
        session: Any = None,
        on_error: Callable[[], None] | None = None,
    ) -> Any:
        """Send a request and return its result, decoded by `decode`.

        `on_error` is called for an error response, before any later message is handled.

        Raise `RequestError` for an error response, `RemoteProtocolError` for a result that does
        not decode, `TransportError` if the connection ends first. Cancelling the waiting task
        sends `$/cancel_request`.
        """
        if self._hung_up is not None:
            raise self._closed or self._hung_up
        caller = LaneHolder.current()
        self.flow.begin_call(session, caller)
        try:
            if self.outbox.blocked:
                await self.outbox.wait_for_room()
            call = PendingCall(
                method, self._loop.create_future(), decode, session, caller, on_error
            )
            request_id = self.peer.request(method, with_trace(params), call)
            self.outbox.flush_when_idle()
            try:
                return await call.future
            except asyncio.CancelledError:
                self._abandon_call(request_id)
                raise
            except (RequestError, RemoteProtocolError) as exc:
                if isinstance(exc, RequestError):
                    exc.origin = self
                if method != "initialize":  # its errors can lead to another attempt
                    await self.transport.explain(exc)
                raise
        finally:
            self.flow.end_call(session, caller)

    def _abandon_call(self, request_id: RequestId) -> None:
        self.peer.cancel(request_id)
        self.peer.forget(request_id)
        self.outbox.flush_soon()

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; wait while the transport is congested."""
        if self._closed is not None:
            raise self._closed
        size = self.peer.notify(method, with_trace(params))
        if self.outbox.frames_added(size):
            await self.wait_for_room()

    def queue_notification(self, frame: bytes) -> bool:
        """Queue the frame of a notification; return whether to wait for room before the next."""
        if self._closed is not None:
            raise self._closed
        size = len(frame)
        if size > self.peer.frame_bytes:
            raise FrameTooLarge("session/update", size, self.peer.frame_bytes)
        self.peer.frames.append(frame)
        return self.outbox.frames_added(size)

    async def wait_for_room(self) -> None:
        """Let others send, and wait while the transport is congested."""
        with self.flow.sending():
            await self.outbox.wait_for_room()

    def _show_sent(self, frames: Sequence[Frame]) -> None:
        for observer in self._observers:
            for frame in frames:
                observer("sent", frame)

    def _response_queued(self, size: int) -> None:
        self.outbox.flush_soon()
        if self.outbox.blocked:
            self.flow.add_unread(size)

    def _count_rejected(self) -> None:
        self._response_queued(self.peer.rejected_bytes)
        self.peer.rejected_bytes = 0

    # Receiving: called by the transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._closing is not None:
            return  # the handlers are being cancelled
        for observer in self._observers:
            for frame in frames:
                observer("received", frame)
        self.outbox.defer_flush()
        try:
            while frames:
                if self._held is None and not self._lanes.by_key:
                    frames = self.streamed_text.take(frames)
                # A stream of text is recognized within one read, after the first part of it.
                part, frames = frames[:_PART_FRAMES], frames[_PART_FRAMES:]
                self._handle_frames(part)
                self.streamed_text.search(part)
            if self.peer.rejected_bytes:
                self._count_rejected()
        finally:
            self.flow.after_reading()
            self.outbox.flush()

    def _handle_frames(self, frames: Sequence[Frame]) -> None:
        for event in self.peer.receive(frames):
            try:
                if type(event) is Message:
                    self._dispatch(event)
                elif type(event) is Response:
                    self._receive_response(event)
                elif type(event) is CancelRequest:
                    self._cancel(event.id)
                elif type(event) is UnexpectedMessage:
                    self._log.log(
                        event.level, "! ignored a message: %s", event.reason, kind=event.reason
                    )
            except Exception as exc:  # noqa: BLE001  # logged there
                self._handle_internal_error(event, exc)

    def _handle_internal_error(self, event: object, exc: Exception) -> None:
        """Report an error in this library, so that later messages are still handled."""
        self._log.exception("! could not handle a message", exc=exc)
        if type(event) is Message and event.id is not UNSET:
            self.request_handlers.fail(event.id, InternalError())
        elif type(event) is Response:
            reject(event.call, ConnectionLost("The response could not be handled"))

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        if self._closing is not None:
            return
        self._log.log(logging.WARNING, "! refused a frame of more than %d bytes", limit)
        answer = self.peer.refuse(InvalidRequest(f"The frame exceeds {limit} bytes"), head)
        if answer is not None:
            self._receive_response(answer)
        self._count_rejected()

    def eof_received(self, error: Exception | None) -> None:
        self._end(error)

    def writable(self) -> None:
        self.outbox.resume()
        self.flow.all_read()

    def _reject_peer(self, reason: str) -> None:
        if not self._finishing:
            self.transport.pause_reading()
            lost = ConnectionLost(reason)
            self._loop.call_soon(self._fail_calls, lost)  # a process has another reason, its exit
            self._end(lost)

    def _fail_session(self, session: Any, error: BacklogExceeded) -> None:
        """Fail the calls of a session whose handlers are too slow: its messages are dropped."""
        self._log.log(logging.ERROR, "! %s", error)
        for request_id, call in self.peer.calls():
            if call.caller is not None and call.caller.still_runs:
                waits = call.caller.session == session
            else:
                waits = session is not None and call.session == session
            if waits:
                self._abandon_call(request_id)
                reject(call, error)
        if self._routes is not None:
            try:
                self._routes.on_backlog_exceeded(session, error)
            except Exception as exc:  # noqa: BLE001  # logged
                self._log.exception("! the handler of exceeded backlogs failed", exc=exc)

    # Handling.

    def _hold(self, held: list[Message], message: Message) -> None:
        held.append(message)
        if message.method == "initialize":
            self._reject_peer("The peer sends back what it receives: it is not an agent")
        self._held_bytes += 0 if message.params is UNSET else len(message.params)
        limits = self.limits
        if len(held) > limits.held_messages or self._held_bytes > limits.total_backlog_bytes:
            self._reject_peer("The peer sends messages without responding to `initialize`")

    def _dispatch(self, message: Message) -> None:
        if self._held is not None:
            self._hold(self._held, message)
            return
        routes = self._routes
        assert routes is not None, "a connection is started with routes"
        method, request_id, text = message.method, message.id, message.params
        table = routes.notifications if request_id is UNSET else routes.requests
        route = table.get(method)  # type: ignore[arg-type]  # a message has a method
        try:
            if route is None:
                found = routes.fallback(method, request_id is not UNSET)  # type: ignore[arg-type]  # as above
                if isinstance(found, RequestError):
                    raise found
                route = found
            try:
                params = route.decode(NO_PARAMS if text is UNSET else text)
            except DecodeError as exc:
                params = decode_leniently(routes, route, method, text, exc)
        except RequestError as error:
            log.debug("! %r: %s", method, error.code)
            if request_id is not UNSET:
                self.request_handlers.fail(request_id, error)
            elif isinstance(error.__cause__, DecodeError):
                report_undecodable(routes, method, text, error.__cause__, self._log)
            return
        if self._lanes.by_key:
            lane = self._lanes.find(session_id_of(params), is_request=request_id is not UNSET)
            if lane is not None:
                size = 0 if text is UNSET else len(text)
                self._lanes.enqueue(lane, QueuedMessage(route, method, params, request_id, size))  # type: ignore[arg-type]  # a message has a method
                return
        self.message_bytes = 0 if text is UNSET else len(text)
        outcome = self._handle(route, method, params, request_id)
        if outcome is not None:
            session = session_id_of(params)
            if session is not None:
                self.flow.note_session(session)
            self._lanes.open(session, method, outcome)  # type: ignore[arg-type]  # as above

    def _cancel(self, request_id: RequestId) -> None:
        self.request_handlers.cancel(request_id)
        self._cancel_queued(lambda item: item.request_id == request_id)

    def cancel_where(self, matches: Callable[[str, Any], bool]) -> None:
        """Cancel the peer's requests whose method and params match; each still gets a response."""
        self.request_handlers.cancel_where(matches)
        self._cancel_queued(lambda item: item.is_request and matches(item.method, item.params))

    def _cancel_queued(self, matches: Callable[[QueuedMessage], bool]) -> None:
        for item in self._lanes.remove_matching(
            lambda item: type(item) is QueuedMessage and matches(item)
        ):
            self.request_handlers.cancel_queued(item.route, item.method, item.request_id)

    def _handle(
        self, route: Route, method: Any, params: Any, request_id: Any
    ) -> Awaitable[None] | None:
        """Call the handler; return an awaitable if the session's next message must wait for it."""
        if request_id is not UNSET:
            assert self._routes is not None
            if (session := session_id_of(params)) is not None:
                self.flow.note_session(session)
            context = self._routes.context(request_id)
            self.request_handlers.start(route, method, params, request_id, context)
            return None
        try:
            outcome = route.handler(params, self._shared)
        except BaseException as exc:
            self._log.exception("! the handler of %r failed", method, exc=exc, about=method)
            if ends_process(exc):
                raise
            return None
        return outcome if outcome is not None and hasattr(outcome, "__await__") else None

    def _begin(self, item: QueuedMessage | QueuedResponse) -> Awaitable[None] | None:
        if type(item) is QueuedMessage:
            self.message_bytes: int = item.size
            return self._handle(item.route, item.method, item.params, item.request_id)
        assert type(item) is QueuedResponse
        resolve(item.answer)
        return None

    def _discard(self, item: QueuedMessage | QueuedResponse) -> None:
        """Discard a message whose lane was cancelled, and release its waiters."""
        if isinstance(item, QueuedResponse):
            if self._closed is not None:
                reject(item.answer.call, self._closed)
            resolve(item.answer)
        elif item.is_request:
            self.request_handlers.cancel_queued(item.route, item.method, item.request_id)

    def _reject(self, item: QueuedMessage | QueuedResponse, error: BacklogExceeded) -> None:
        """Refuse a message because the backlog of its lane is exceeded."""
        if isinstance(item, QueuedResponse):
            reject(item.answer.call, error)
        elif item.is_request:
            self.request_handlers.fail(item.request_id, InternalError(str(error)))

    def _receive_response(self, answer: Response) -> None:
        call: PendingCall = answer.call
        # A response without a session does not wait for handlers.
        lane = None if call.session is None else self._lanes.by_key.get(call.session)
        if lane is not None and not (call.caller is not None and call.caller.still_runs):
            size = len(answer.result) if answer.result is not None else 0
            self._lanes.enqueue(lane, QueuedResponse(answer, call.method, size))
            return
        resolve(answer)
