"""Requests in progress: those of this side wait for a response, those of the peer for a handler.

Each request of the peer gets exactly one response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Raw, Struct

from accord.connection.lanes import LaneHolder
from accord.connection.limits import FloodLog, Limits
from accord.connection.routes import Route, context_with_trace
from accord.connection.tasks import Tasks, cancel, discard, ends_process, is_dropped
from accord.errors import (
    AccordError,
    DecodeError,
    FrameTooLarge,
    InternalError,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    TransportError,
)
from accord.jsonrpc.message import RequestId, Response
from accord.jsonrpc.peer import Peer
from accord.text import lenient_json
from accord.text.excerpt import excerpt


class PendingCall(Struct):  # tracked by gc: exceptions refer back to it
    """A request of this side that waits for its response."""

    method: str
    future: asyncio.Future[Any]
    decode: Callable[[bytes | Raw], Any]
    session: Any
    caller: LaneHolder | None  # the handler that waits for it
    on_error: Callable[[], None] | None = None  # called before any later message is handled


def reject(call: PendingCall, error: AccordError) -> None:
    """Make a call raise an error."""
    if not call.future.done():
        call.future.set_exception(error)
        call.future.exception()  # no warning if it is no longer awaited


def resolve(answer: Response) -> None:
    """Complete a call with its response."""
    call: PendingCall = answer.call
    if call.future.done():
        return
    is_error = answer.fault is not None or answer.message is not None
    if is_error and call.on_error is not None:
        call.on_error()
    if answer.fault is not None:
        call.future.set_exception(RemoteProtocolError(f"{call.method}: {answer.fault}"))
        return
    if answer.message is not None:
        call.future.set_exception(RequestError.of(answer.code, answer.message, answer.data))
        return
    try:
        value = call.decode(answer.result)  # type: ignore[arg-type]  # present unless it is an error
    except DecodeError as exc:
        raw = lenient_json.loads(bytes(answer.result or b"null"))
        error = RemoteProtocolError(f"The result of {call.method} does not fit: {exc}", raw=raw)
        call.future.set_exception(error)
    except Exception as exc:  # noqa: BLE001  # raised by the call
        call.future.set_exception(exc)
    else:
        call.future.set_result(value)


log: logging.Logger = logging.getLogger("accord.connection.connection")

_MAX_MESSAGE = 10_000  # characters of an error whose data cannot be encoded


class _Receiving(Protocol):
    """The connection that receives the requests."""

    message_bytes: int


class RunningRequest(Struct):
    """A request whose handler is being awaited."""

    method: str
    params: Any
    route: Route
    size: int  # of the params, in bytes
    cancelled: bool = False
    task: asyncio.Task[None] | None = None


class RequestHandlers:
    """Calls the handlers of requests, and responds with what they return or raise.

    `answered(size)` is called with the size of each response in bytes.
    """

    def __init__(
        self,
        connection: _Receiving,
        peer: Peer,
        tasks: Tasks,
        limits: Limits,
        answered: Callable[[int], None],
        flood_log: FloodLog,
    ) -> None:
        self._log = flood_log
        self._connection = connection
        self._peer = peer
        self._tasks = tasks
        self._limits = limits
        self._answered = answered
        self._running: dict[RequestId, RunningRequest] = {}
        self._running_bytes = 0
        self.ended_by: TransportError | None = None  # why the peer is unreachable

    def __len__(self) -> int:
        return len(self._running)

    def start(
        self, route: Route, method: str, params: Any, request_id: RequestId, context: Any
    ) -> None:
        """Handle a request, in a task if its handler returns an awaitable."""
        if len(self._running) >= self._limits.requests:
            self.fail(request_id, InternalError("Too many requests in progress"))
            return
        size = self._connection.message_bytes
        if self._running and self._running_bytes + size > self._limits.total_backlog_bytes:
            self.fail(request_id, InternalError("The requests in progress are too large"))
            return
        meta = getattr(params, "meta", None)
        scope = context_with_trace(meta) if meta else None
        try:
            if scope is None:
                outcome = route.handler(params, context)
            else:
                outcome = scope.run(route.handler, params, context)
        except BaseException as exc:  # becomes the response
            self._failed(method, request_id, exc)
            if ends_process(exc):
                raise
            return
        if not hasattr(outcome, "__await__"):
            self._respond(route, method, request_id, outcome)
            return
        running = self._running[request_id] = RunningRequest(method, params, route, size)
        self._running_bytes += size
        running.task = self._tasks.spawn(
            self._await(running, request_id, outcome), name=f"accord {method}", context=scope
        )
        running.task.add_done_callback(lambda _: self._never_started(running, request_id, outcome))

    def cancel_queued(self, route: Route, method: str, request_id: RequestId) -> None:
        """Respond to a request that was cancelled while it waited in a lane."""
        self._cancelled(route, method, request_id)

    def cancel(self, request_id: RequestId) -> None:
        """Cancel the handler of a request (R-REQCAN-03), which still gets a response."""
        if (running := self._running.get(request_id)) is not None:
            _cancel(running)

    def cancel_where(self, matches: Callable[[str, Any], bool]) -> None:
        """Cancel the handlers of the requests whose method and params match."""
        for running in list(self._running.values()):
            if matches(running.method, running.params):
                _cancel(running)

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of the running handlers."""
        return {running.task for running in self._running.values() if running.task is not None}

    def fail(self, request_id: RequestId, error: RequestError) -> None:
        """Respond with an error."""
        try:
            size = self._peer.fail(request_id, error)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! the data of an error cannot be encoded", exc=exc)
            message = excerpt(error.message, _MAX_MESSAGE)
            size = self._peer.fail(request_id, RequestError(message, code=error.code))
        self._answered(size)

    async def _await(
        self, running: RunningRequest, request_id: RequestId, outcome: Awaitable[Any]
    ) -> None:
        try:
            result = await outcome
        except asyncio.CancelledError:
            self._cancelled(running.route, running.method, request_id)
        except BaseException as exc:
            if is_dropped(exc, running.task):
                raise
            if running.cancelled and running.route.cancelled_result is not None:
                # R-CANCEL-06: an exception of a cancelled operation is not an error.
                log.debug("! %r failed while being cancelled", running.method, exc_info=True)
                self._cancelled(running.route, running.method, request_id)
            else:
                self._failed(running.method, request_id, exc)
            if ends_process(exc):
                raise
        else:
            self._respond(running.route, running.method, request_id, result)
        finally:
            self._remove(request_id)

    def _never_started(
        self, running: RunningRequest, request_id: RequestId, outcome: Awaitable[Any]
    ) -> None:
        """Respond for a task that was cancelled before its first step."""
        if self._running.get(request_id) is running:
            self._remove(request_id)
            discard(outcome)
            self._cancelled(running.route, running.method, request_id)

    def _remove(self, request_id: RequestId) -> None:
        self._running_bytes -= self._running.pop(request_id).size

    def _cancelled(self, route: Route, method: str, request_id: RequestId) -> None:
        if route.cancelled_result is not None:
            self._respond(route, method, request_id, route.cancelled_result())
        else:
            self.fail(request_id, RequestCancelled())

    def _respond(self, route: Route, method: str, request_id: RequestId, result: Any) -> None:
        try:
            if result is None and route.empty_result is not None:
                result = route.empty_result()
            size = self._peer.respond(request_id, result)
        except FrameTooLarge as exc:
            self._log.log(logging.WARNING, "! the result of %r: %s", method, exc)
            what = f"The result of {excerpt(method)} is too large: {exc.size_bytes} bytes"
            data = {"size": exc.size_bytes, "limit": exc.limit_bytes}
            error = InternalError(f"{what}, the limit is {exc.limit_bytes}", data=data)
            self.fail(request_id, error)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! a result cannot be encoded", exc=exc)
            self.fail(request_id, InternalError())
        else:
            self._answered(size)

    def _failed(self, method: str, request_id: RequestId, exc: BaseException) -> None:
        if isinstance(exc, RequestError) and exc.origin is not self._connection:
            self.fail(request_id, exc)
        elif exc is self.ended_by:
            # The handler failed because the peer disconnected during its call.
            log.debug("! the handler of %s ended with the connection", method)
            self.fail(request_id, InternalError())
        else:
            # The peer must not see its text (R-ERR-05).
            self._log.exception("! the handler of %r failed", method, exc=exc, about=method)
            self.fail(request_id, InternalError())


def _cancel(running: RunningRequest) -> None:
    running.cancelled = True
    if running.task is not None:
        cancel(running.task)
