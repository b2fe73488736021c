"""A stage whose handlers may be coroutines, without changing the order of messages.

Each direction has lanes, one for each session: while a handler is awaited, the later messages of
its session wait in this direction, responses included (R-PROXY-18). The other sessions and the
other direction do not wait (R-PROXY-19).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from accord.connection.tasks import Tasks, discard_with, ends_process, is_being_cancelled
from accord.errors import ConnectionClosed, InternalError, RequestCancelled, RequestError
from accord.proxy.lanes import PassingLanes, Release
from accord.proxy.runs import Run
from accord.proxy.stage import Direction, Params, Port, RawRequest, RawResponse, Stage
from accord.text import lenient_json

log: logging.Logger = logging.getLogger("accord.proxy")

_CLOSE_S = 5.0
# For one direction, if one connection carries both: more is not read, of neither direction.
_MAX_WAITING_BYTES = 8 * 1024 * 1024
_BACK = {Direction.TO_AGENT: Direction.TO_CLIENT, Direction.TO_CLIENT: Direction.TO_AGENT}

# Handles a notification, and passes it on by a port of the stage if it should arrive.
NotificationHandler: TypeAlias = Callable[[str, Params], Awaitable[None] | None]
# Returns the response to a request, which may come from `PassingRequest.forward`.
RequestHandler: TypeAlias = Callable[["PassingRequest"], Awaitable[RawResponse] | RawResponse]


class _SessionId(Struct):
    session_id: str | None = msgspec.field(name="sessionId", default=None)


_decode_session_id = msgspec.json.Decoder(_SessionId).decode


def session_id_of(params: Params) -> str | None:
    """Return the session that params belong to; None if they name none."""
    if params is UNSET:
        return None
    try:
        return _decode_session_id(params).session_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = lenient_json.loads(bytes(params))
    except lenient_json.NotJson:
        return None
    session_id = value.get("sessionId") if lenient_json.is_object(value) else None
    return session_id if isinstance(session_id, str) else None


class OrderedStage(Stage):
    """Calls the handlers of its subclass, and passes on all other messages unchanged.

    A handler holds the lane of its session until it returns; the handler of a request releases it
    while it waits in `PassingRequest.forward`. So a cancel notification is never held up by a
    running prompt. Exceptions of notification handlers are logged; a `RequestError` of a request
    handler is the response, and any other exception is logged and answered with `Internal error`.
    """

    def __init__(self) -> None:
        self._lanes = {
            direction: PassingLanes(partial(self._full, direction)) for direction in Direction
        }
        self._full_lanes: set[Direction] = set()
        self._calls = 0
        self._tasks: Tasks | None = None

    # To override.

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        """Return what handles these notifications; None passes them on."""
        return None

    def request_handler(self, to: Direction, method: str) -> RequestHandler | None:
        """Return what handles these requests; None passes them on."""
        return None

    def port(self, to: Direction) -> Port:
        """Return the port to a side."""
        return self.agent if to is Direction.TO_AGENT else self.client

    async def call(self, to: Direction, method: str, params: Params = UNSET) -> RawResponse:
        """Send a request of this stage; its response does not wait in a lane.

        Cancelling the waiting task cancels the request. Raise `ConnectionClosed` if the chain ends.
        """
        answer: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        request = RawRequest(method, params, partial(_resolve, answer))
        self._calls += 1
        self._apply_full()
        self.port(to).request(request)
        try:
            return await answer
        except asyncio.CancelledError:
            request.cancel()
            raise
        finally:
            self._calls -= 1
            self._apply_full()

    def spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        """Run a coroutine until the chain ends."""
        if self._tasks is None:
            self._tasks = Tasks()
        return self._tasks.spawn(work, name=name)

    async def start(self) -> None:
        await super().start()
        if self._shares_connection:
            # So that a handler of an update that hangs does not keep a cancellation from the agent.
            for lanes in self._lanes.values():
                lanes.limit_bytes = _MAX_WAITING_BYTES

    @property
    def _shares_connection(self) -> bool:
        """Whether one connection carries both directions: that of a program to its conductor."""
        return self.flows[Direction.TO_AGENT].source is self.flows[Direction.TO_CLIENT].source

    async def aclose(self) -> None:
        """Cancel the running handlers."""
        if self._tasks is not None:
            await self._tasks.cancel(_CLOSE_S)

    # Notifications.

    def notification_from_client(self, method: str, params: Params) -> None:
        self._notification(Direction.TO_AGENT, method, params)

    def notification_from_agent(self, method: str, params: Params) -> None:
        self._notification(Direction.TO_CLIENT, method, params)

    def run_from_agent(self, run: Run) -> None:
        to = Direction.TO_CLIENT
        if self._lanes[to].are_free and self.notification_handler(to, run.method) is None:
            self.client.notify_run(run)
        else:
            super().run_from_agent(run)

    def _notification(self, to: Direction, method: str, params: Params) -> None:
        handler = self.notification_handler(to, method)
        lanes = self._lanes[to]
        if lanes.are_free:
            if handler is None:
                self.port(to).notify(method, params)
                return
            outcome = self._handle(handler, method, params)
            if outcome is None:
                return
            run = partial(self._await, outcome, method)
        else:
            run = partial(self._run_later, to, handler, method, params)
        lanes.submit(session_id_of(params), _size(params), run)

    def _run_later(
        self,
        to: Direction,
        handler: NotificationHandler | None,
        method: str,
        params: Params,
        release: Release,
    ) -> bool:
        if handler is None:
            self.port(to).notify(method, params)
            return False
        outcome = self._handle(handler, method, params)
        return outcome is not None and self._await(outcome, method, release)

    def _handle(
        self, handler: NotificationHandler, method: str, params: Params
    ) -> Awaitable[None] | None:
        try:
            outcome = handler(method, params)
        except Exception:  # logged: the other messages still count
            log.exception("! %s: the handler of %s failed", self.name, method)
            return None
        return outcome if inspect.isawaitable(outcome) else None

    def _await(self, outcome: Awaitable[None], method: str, release: Release) -> bool:
        async def wait() -> None:
            try:
                await outcome
            except asyncio.CancelledError:
                if is_being_cancelled():
                    raise
            except BaseException as exc:
                log.exception("! %s: the handler of %s failed", self.name, method)
                if ends_process(exc):
                    raise

        task = self.spawn(wait(), f"accord {self.name} {method}")
        task.add_done_callback(lambda _: release())
        discard_with(task, outcome)
        return True

    # Requests.

    def request_from_client(self, request: RawRequest) -> None:
        self._request(Direction.TO_AGENT, request)

    def request_from_agent(self, request: RawRequest) -> None:
        self._request(Direction.TO_CLIENT, request)

    def _request(self, to: Direction, request: RawRequest) -> None:
        handler = self.request_handler(to, request.method)
        lanes = self._lanes[to]
        if handler is None and lanes.are_free:
            self._pass(to, request)
            return

        def run(release: Release) -> bool:
            if request.is_answered:  # cancelled while it waited
                return False
            if handler is None:
                self._pass(to, request)
                return False
            return PassingRequest(self, to, request, release).start(handler)

        request.on_cancel(lambda: request.fail(RequestCancelled()))
        lanes.submit(session_id_of(request.params), _size(request.params), run)

    def _pass(self, to: Direction, request: RawRequest) -> None:
        """Pass on a request; its response waits for the handlers of earlier messages."""
        back = self._lanes[_BACK[to]]

        def answered(response: RawResponse) -> None:
            if back.are_free:
                request.answer(response)
                return

            def run(_: Release) -> bool:
                request.answer(response)
                return False

            back.submit(session_id_of(request.params), _response_size(response), run)

        self.port(to).request(request.derive(answered))

    def lanes_back(self, to: Direction) -> PassingLanes:
        """Return the lanes of the responses to requests of a direction."""
        return self._lanes[_BACK[to]]

    # Back-pressure.

    def _full(self, direction: Direction, is_full: bool) -> None:
        (self._full_lanes.add if is_full else self._full_lanes.discard)(direction)
        if is_full and self._shares_connection:
            log.warning(
                "! %s: a handler of messages %s has not returned, and %d MiB wait for it: nothing"
                " is read until then",
                self.name,
                direction.value,
                _MAX_WAITING_BYTES // 1024**2,
            )
        self._apply_full()

    def _apply_full(self) -> None:
        """Stop the sources of full lanes, unless a handler waits for a response of its own."""
        for direction, flow in self.flows.items():
            if direction in self._full_lanes and not self._calls:
                flow.block(self)
            else:
                flow.unblock(self)


class PassingRequest:
    """A request whose handler runs: `method` and `params` as they came."""

    def __init__(
        self, stage: OrderedStage, to: Direction, request: RawRequest, release: Release
    ) -> None:
        self.method: str = request.method
        self.params: Params = request.params
        self.to: Direction = to
        self._stage = stage
        self._request = request
        self._release = release
        self._task: asyncio.Task[None] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the sender has cancelled the request."""
        return self._request.is_cancelled

    async def forward(
        self, *, method: str | None = None, params: Params | None = None
    ) -> RawResponse:
        """Send the request on, with other params if they are given; return the response.

        While this waits, later messages of the session pass. The response comes after all messages
        that arrived before it, and later ones wait for the handler again. May be called repeatedly.
        """
        response: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        session_id = session_id_of(self.params)
        back = self._stage.lanes_back(self.to)

        def answered(received: RawResponse) -> None:
            def run(release: Release) -> bool:
                if response.done():
                    return False
                self._release = release
                response.set_result(received)
                return True

            # A response without a session may open one, whose updates must come after it.
            back.submit(session_id, _response_size(received), run, gates=session_id is None)

        derived = self._request.derive(answered, method=method, params=params)
        self._stage.port(self.to).request(derived)
        self._release()
        try:
            return await response
        finally:
            if not self._request.is_cancelled:
                self._request.on_cancel(self._cancel)

    def start(self, handler: RequestHandler) -> bool:
        """Call the handler; return whether it is awaited."""
        try:
            outcome = handler(self)
        except Exception as exc:  # noqa: BLE001  # answered
            self._fail(exc)
            return False
        if isinstance(outcome, RawResponse):
            self._request.answer(outcome)
            return False
        self._task = self._stage.spawn(
            self._run(outcome), f"accord {self._stage.name} {self.method}"
        )
        self._task.add_done_callback(self._ended)
        discard_with(self._task, outcome)
        if not self._request.is_cancelled:
            self._request.on_cancel(self._cancel)
        return True

    async def _run(self, outcome: Awaitable[RawResponse]) -> None:
        try:
            self._request.answer(await outcome)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            self._request.fail(RequestCancelled())
        except BaseException as exc:
            if ends_process(exc):
                raise  # the end of this program is the answer
            self._fail(exc)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._request.fail(
                RequestCancelled() if self._request.is_cancelled else _closed(self._stage)
            )
        self._release()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _fail(self, exc: BaseException) -> None:
        if isinstance(exc, RequestError):
            self._request.fail(exc)
            return
        log.error("! %s: the handler of %s failed", self._stage.name, self.method, exc_info=exc)
        self._request.fail(InternalError())


def _closed(stage: Stage) -> RequestError:
    return InternalError(str(ConnectionClosed(f"{stage.name} was closed")))


def _response_size(response: RawResponse) -> int:
    text = response.result if response.error is None else response.error
    return 0 if text is None else len(text)


def _size(params: Params) -> int:
    return 0 if params is UNSET else len(params)


def _resolve(answer: asyncio.Future[RawResponse], response: RawResponse) -> None:
    if not answer.done():
        answer.set_result(response)
