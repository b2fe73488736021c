"""A JSON-RPC connection on asyncio: calls, handlers, order, bounds, and an end that always comes.

One reader: all frames of one read are decoded and dispatched in one go. Plain functions are
called directly; coroutines of notifications go through the lane of their session, those of
requests get a task each, started in order. All frames of one loop turn leave in one write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct

from accord.errors import (
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    TransportError,
)
from accord.jsonrpc.message import Answer, Cancel, Message, RequestId, Stray
from accord.jsonrpc.peer import Peer
from accord.lanes import Lane, Lanes, running_handler
from accord.trace import continued, traced
from accord.transports.base import Frame, Transport
from accord.wire.codec import encode

__all__ = (
    "Connection",
    "Context",
    "Limits",
    "Observer",
    "Route",
    "Routes",
    "Running",
    "not_served",
)

log = logging.getLogger("accord.connection")

Direction: TypeAlias = Literal["received", "sent"]
Observer: TypeAlias = Callable[[Direction, Frame], None]

_TURN_BYTES = 16 * 1024  # what one task may send before others get their turn
_FLUSH_BYTES = 64 * 1024  # what is held back for one write at most
_NO_PARAMS = b"{}"


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a connection. Sizes in bytes, times in seconds."""

    waiting: int = 1024  # messages that wait in lanes before the peer has to wait
    waiting_bytes: int = 8 * 1024 * 1024
    most_waiting_bytes: int = 256 * 1024 * 1024  # the connection ends beyond
    unread_answers_bytes: int = 16 * 1024 * 1024  # then requests are no longer read
    requests: int = 16_384  # of the peer that are being handled at once
    eof_grace_s: float = 0.5  # for handlers to finish once the peer has hung up
    close_timeout_s: float = 5.0


class Context:
    """What a handler may know and do besides its params."""

    __slots__ = ("connection", "request_id")

    def __init__(self, connection: Connection, request_id: RequestId) -> None:
        self.connection = connection
        self.request_id = request_id


class Route(Struct, kw_only=True):
    """How one method is served: `handler(params, context)` returns the result or an awaitable.

    `cancelled` makes the answer of a request whose handler was cancelled, for methods that
    have one other than error -32800.
    """

    decode: Callable[[bytes | Raw], Any]
    handler: Callable[[Any, Any], Any]
    cancelled: Callable[[], Any] | None = None


class Routes(Struct, kw_only=True):
    """What is served at the moment.

    `missing(method, is_request)` finds a route for a method that is in no table, or the error
    to answer; `rescue(method, text)` may read params that did not decode in another way.
    """

    requests: Mapping[str, Route]
    notifications: Mapping[str, Route]
    context: Callable[[RequestId], Any]
    missing: Callable[[str, bool], Route | RequestError]
    rescue: Callable[[str, bytes], Any | None] = lambda _method, _text: None


class _Call(Struct):
    """A request of ours that waits for its answer."""

    method: str
    future: asyncio.Future[Any]
    decode: Callable[[bytes | Raw], Any]
    session: Any
    asker: tuple[Lane, int] | None  # the handler that waits for it

    def is_asked_by_running_handler(self) -> bool:
        return self.asker is not None and self.asker[0].turn == self.asker[1]


class Running(Struct):
    """A request of the peer whose handler runs."""

    method: str
    params: Any
    route: Route
    task: asyncio.Task[None] | None = None
    cancelled: bool = False


class Connection:
    """Speaks JSON-RPC with one peer over a transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        limits: Limits | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.transport = transport
        self.limits = limits or Limits()
        self.peer = Peer(encode)
        self.running: dict[RequestId, Running] = {}
        self._observers = list(observers)
        self._loop = asyncio.get_running_loop()
        self._routes: Routes | None = None
        self._held: list[Message] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lanes = Lanes(self._spawn, self._regulate)
        self._closed: TransportError | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._shared: Any = None  # the context of notifications
        self._flush_due = False
        self._turn_bytes = 0
        self._unsent_bytes = 0
        self._senders: list[asyncio.Future[None]] = []
        self._unread_answers_bytes = 0
        self._inside_calls = 0
        self._reading_paused = False

    # Life.

    async def start(self, routes: Routes) -> None:
        """Begin to read and serve; raise `TransportError` when there is no way to the peer."""
        self.serve(routes)
        await self.transport.start(self)
        log.debug("= started")

    def serve(self, routes: Routes) -> None:
        """Serve these from the next message on."""
        self._routes = routes
        self._shared = routes.context(None)

    def hold(self) -> None:
        """Keep what arrives, answers apart, until `release`."""
        self._held = []

    def release(self) -> None:
        """Handle what was kept, in order."""
        held, self._held = self._held, None
        for message in held or ():
            self._dispatch(message)

    def observe(self, observer: Observer) -> None:
        """Show every frame from now on, both ways; the observer must not raise."""
        self._observers.append(observer)

    async def wait_ended(self) -> None:
        """Return once the peer has hung up and its requests are done, or after `aclose`."""
        await asyncio.shield(self._ended)

    async def aclose(self) -> None:
        """End the connection: fail what waits, cancel what runs, free the transport."""
        if self._closing is None:
            self._shut(ConnectionClosed("The connection was closed"))
            self._closing = self._loop.create_task(self._close(), name="accord close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._cancel_tasks()
        self._flush()
        try:
            async with asyncio.timeout(self.limits.close_timeout_s * 2):
                await self.transport.aclose()
        except TimeoutError:
            log.warning("! the transport did not close in time")
        if not self._ended.done():
            self._ended.set_result(None)
        log.debug("x closed")

    async def _cancel_tasks(self) -> None:
        asker = asyncio.current_task()
        for running in self.running.values():
            running.cancelled = True
        tasks = {task for task in self._tasks if task is not asker and task is not self._closing}
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=self.limits.close_timeout_s)
            for task in stubborn:
                log.error("! %s does not stop when cancelled; left behind", task.get_name())

    def _shut(self, error: TransportError) -> None:
        """Fail everything that waits for the peer, now and later."""
        if self._closed is None:
            self._closed = error
        for call in self.peer.receive_eof():
            if not call.future.done():
                call.future.set_exception(error)
                call.future.exception()  # whoever does not await it any more is not warned
        self.writable()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Sending.

    async def call(
        self,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        *,
        session: Any = None,
    ) -> Any:
        """Send a request and return its result as `decode` reads it.

        Raise `RequestError` for an error answer, `RemoteProtocolError` for a result that does
        not decode, `TransportError` when the connection ends first. Cancelling the task that
        waits sends `$/cancel_request`.
        """
        if self._closed is not None:
            raise self._closed
        if self.transport.congested:
            await self._room()
        asker = running_handler()
        call = _Call(method, self._loop.create_future(), decode, session, asker)
        request_id = self.peer.request(method, traced(params), call)
        self._flush_soon()
        if asker is not None:
            # Its answer lies behind what waits in the lanes: reading has to go on.
            self._inside_calls += 1
            self._regulate()
        try:
            return await call.future
        except asyncio.CancelledError:
            self.peer.cancel(request_id)
            self.peer.forget(request_id)
            self._flush_soon()
            raise
        finally:
            if asker is not None:
                self._inside_calls -= 1
                self._regulate()

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; wait while the peer reads slower than we write."""
        if self._closed is not None:
            raise self._closed
        size = self.peer.notify(method, traced(params))
        self._unsent_bytes += size
        self._turn_bytes += size
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
        if self._turn_bytes > _TURN_BYTES:
            await self._room()

    async def _room(self) -> None:
        """Let others send; wait until the peer has caught up."""
        self._turn_bytes = 0
        if self._unsent_bytes > _FLUSH_BYTES:
            self._flush()
        await asyncio.sleep(0)
        while self.transport.congested:
            if self._closed is not None:
                raise self._closed
            sender: asyncio.Future[None] = self._loop.create_future()
            self._senders.append(sender)
            await sender
        if self._closed is not None:
            raise self._closed

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._unsent_bytes = 0
        frames = self.peer.frames_to_send()
        if not frames:
            return
        for observer in self._observers:
            for frame in frames:
                observer("sent", frame)
        self.transport.write(frames)

    # Receiving: called by the transport.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for observer in self._observers:
            for frame in frames:
                observer("received", frame)
        for event in self.peer.receive(frames):
            if type(event) is Message:
                self._dispatch(event)
            elif type(event) is Answer:
                self._answered(event)
            elif type(event) is Cancel:
                self._cancel(event)
            elif type(event) is Stray:
                log.debug("! ignored a message: %s", event.reason)
        if self._lanes or self.running:
            self._regulate()
        self._flush()

    def frame_refused(self, limit: int) -> None:
        log.warning("! refused a frame of more than %d bytes", limit)
        self.peer.reject(InvalidRequest(f"A frame has at most {limit} bytes"))
        self._flush_soon()

    def eof_received(self, error: Exception | None) -> None:
        if self._closing is None:
            self._spawn(self._finish(error)).set_name("accord finish")

    def writable(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            if not sender.done():
                sender.set_result(None)
        if self._unread_answers_bytes:
            self._unread_answers_bytes = 0
            self._regulate()

    async def _finish(self, error: Exception | None) -> None:
        """The peer has hung up: say so to whoever waits, let the handlers come to an end."""
        reason = error if isinstance(error, TransportError) else None
        try:
            async with asyncio.timeout(self.limits.close_timeout_s):
                reason = await self.transport.lost() or reason
        except TimeoutError:
            log.debug("! the transport could not say how the peer ended")
        if not isinstance(reason, TransportError):
            reason = ConnectionLost("The peer ended the connection")
        unanswered = self.peer.unanswered
        handlers = {running.task for running in self.running.values() if running.task}
        if handlers:
            await asyncio.wait(handlers, timeout=self.limits.eof_grace_s)
        log.debug("= the peer hung up, %d requests unanswered", unanswered)
        self._flush()
        self._shut(reason)
        await self._cancel_tasks()
        if not self._ended.done():
            self._ended.set_result(None)

    def _regulate(self) -> None:
        """Let the peer wait while too much of it waits here, unless a handler waits for it."""
        waiting = self._lanes
        if waiting.size_bytes > self.limits.most_waiting_bytes:
            self.transport.pause_reading()
            self._shut(ConnectionLost("The peer sends faster than its messages are handled"))
            self.eof_received(self._closed)
            return
        full = (
            waiting.items > self.limits.waiting
            or waiting.size_bytes > self.limits.waiting_bytes
            or self._unread_answers_bytes > self.limits.unread_answers_bytes
        )
        if full and not self._inside_calls:
            if not self._reading_paused:
                self._reading_paused = True
                self.transport.pause_reading()
        elif self._reading_paused and (self._inside_calls or 2 * waiting.items <= self.limits.waiting):
            self._reading_paused = False
            self.transport.resume_reading()

    # Handling.

    def _dispatch(self, message: Message) -> None:
        if self._held is not None:
            self._held.append(message)
            if len(self._held) > self.limits.waiting:
                self._shut(ConnectionLost("The peer sends before it answers `initialize`"))
                self.eof_received(self._closed)
            return
        routes = self._routes
        assert routes is not None, "started without routes"
        method, request_id = message.method, message.id
        assert type(method) is str
        table = routes.notifications if request_id is UNSET else routes.requests
        route = table.get(method)
        if route is None:
            found = routes.missing(method, request_id is not UNSET)
            if isinstance(found, RequestError):
                self._refuse(method, request_id, found)
                return
            route = found
        text = message.params
        try:
            params = route.decode(_NO_PARAMS if text is UNSET else text)
        except DecodeError as exc:
            params = self._second_try(routes, route, method, text)
            if params is None:
                where = DecodeError("", exc.path)
                self._refuse(
                    method,
                    request_id,
                    InvalidParams(
                        f"Invalid params: {exc}",
                        data={"path": str(where).removeprefix(" at "), "reason": exc.message},
                    ),
                )
                return
        if self._lanes:
            lane = self._lanes.busy(getattr(params, "session_id", None))
            if lane is not None:
                size = len(text) if text is not UNSET else 0
                self._lanes.put(
                    lane, size, lambda: self._handle(route, method, params, request_id)
                )
                return
        outcome = self._handle(route, method, params, request_id)
        if outcome is not None:
            self._lanes.open(getattr(params, "session_id", None), outcome)

    def _second_try(self, routes: Routes, route: Route, method: str, text: Any) -> Any | None:
        """Read null params as none (R-GEN-09), and early spellings."""
        if text is UNSET:
            return None
        try:
            if text == b"null" or bytes(text).strip() == b"null":
                return route.decode(_NO_PARAMS)
            return routes.rescue(method, bytes(text))
        except DecodeError:
            return None

    def _refuse(self, method: str, request_id: Any, error: RequestError) -> None:
        log.debug("! %s: %s", method, error.code)
        if request_id is not UNSET:
            self._fail(request_id, error)

    def _handle(
        self, route: Route, method: str, params: Any, request_id: Any
    ) -> Awaitable[None] | None:
        """Call the handler; return what has to be awaited before the next of its session."""
        if request_id is not UNSET:
            self._handle_request(route, method, params, request_id)
            return None
        try:
            outcome = route.handler(params, self._shared)
        except Exception:
            log.exception("! the handler of %s failed", method)
            return None
        return None if outcome is None else self._await_notified(method, outcome)

    async def _await_notified(self, method: str, outcome: Awaitable[None]) -> None:
        try:
            await outcome
        except Exception:
            log.exception("! the handler of %s failed", method)

    def _handle_request(self, route: Route, method: str, params: Any, request_id: Any) -> None:
        if len(self.running) >= self.limits.requests:
            self._fail(request_id, InternalError("Too many requests at once"))
            return
        assert self._routes is not None
        meta = getattr(params, "meta", None)
        scope = continued(meta) if meta else None
        context = self._routes.context(request_id)
        try:
            if scope is None:
                outcome = route.handler(params, context)
            else:
                outcome = scope.run(route.handler, params, context)
        except Exception as exc:
            self._failed(method, request_id, exc)
            return
        if not hasattr(outcome, "__await__"):
            self._respond(request_id, outcome)
            return
        running = self.running[request_id] = Running(method, params, route)
        running.task = self._loop.create_task(
            self._await_result(running, request_id, outcome), name=f"accord {method}", context=scope
        )
        self._tasks.add(running.task)
        running.task.add_done_callback(self._tasks.discard)

    async def _await_result(
        self, running: Running, request_id: RequestId, outcome: Awaitable[Any]
    ) -> None:
        try:
            result = await outcome
        except asyncio.CancelledError:
            self._cancelled(running, request_id)
        except Exception as exc:
            if running.cancelled and running.route.cancelled is not None:
                # R-CANCEL-06: an operation that was aborted is not an error.
                log.debug("! %s failed while being cancelled", running.method, exc_info=True)
                self._cancelled(running, request_id)
            else:
                self._failed(running.method, request_id, exc)
        else:
            self._respond(request_id, result)
        finally:
            self.running.pop(request_id, None)
            self._flush_soon()

    def _cancelled(self, running: Running, request_id: RequestId) -> None:
        if running.route.cancelled is not None:
            self._respond(request_id, running.route.cancelled())
        else:
            self._fail(request_id, RequestCancelled())

    def _respond(self, request_id: RequestId, result: Any) -> None:
        try:
            size = self.peer.respond(request_id, result)
        except Exception:
            log.exception("! a result cannot be written")
            self._fail(request_id, InternalError())
        else:
            self._answered_bytes(size)

    def _failed(self, method: str, request_id: RequestId, exc: Exception) -> None:
        if isinstance(exc, RequestError):
            self._fail(request_id, exc)
        else:
            # Nothing of it goes to the peer.
            log.error("! the handler of %s failed", method, exc_info=exc)
            self._fail(request_id, InternalError())

    def _fail(self, request_id: RequestId, error: RequestError) -> None:
        try:
            size = self.peer.fail(request_id, error)
        except Exception:
            log.exception("! an error cannot be written")
            size = self.peer.fail(request_id, InternalError())
        self._answered_bytes(size)

    def _answered_bytes(self, size: int) -> None:
        self._unsent_bytes += size
        if self.transport.congested:
            self._unread_answers_bytes += size

    def cancel_running(self, matches: Callable[[Running], bool]) -> None:
        """Cancel the handlers of the peer's requests that match."""
        for running in list(self.running.values()):
            if matches(running) and running.task is not None:
                running.cancelled = True
                running.task.cancel()

    def _cancel(self, event: Cancel) -> None:
        running = self.running.get(event.id)
        if running is not None and running.task is not None:
            running.cancelled = True
            running.task.cancel()

    def _answered(self, answer: Answer) -> None:
        call: _Call = answer.call
        if self._lanes and not call.is_asked_by_running_handler():
            lane = self._lanes.busy(call.session)
            if lane is not None:
                self._lanes.put(lane, len(answer.result or b""), lambda: self._settle(answer))
                return
        self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        call: _Call = answer.call
        if call.future.done():
            return
        if answer.message is not None:
            call.future.set_exception(RequestError.of(answer.code, answer.message, answer.data))
            return
        try:
            value = call.decode(answer.result)  # type: ignore[arg-type]  # there without an error
        except DecodeError as exc:
            call.future.set_exception(
                RemoteProtocolError(f"The result of {call.method} does not fit: {exc}")
            )
        except Exception as exc:
            call.future.set_exception(exc)
        else:
            call.future.set_result(value)


def not_served(method: str, _is_request: bool) -> RequestError:
    """The `missing` of a table that is complete."""
    return MethodNotFound(f"Method not found: {method}", data={"method": method})

