"""The stage of a Python proxy: calls the handlers of what it overrides, and passes on all else.

`OrderedStage` calls handlers that may be coroutines without changing the order of messages: each
direction has lanes, one for each session, and while a handler is awaited, the later messages of
its session wait in this direction, responses included (R-PROXY-18). The other sessions and the
other direction do not wait (R-PROXY-19). `Overrides` has the handlers by method, with typed params.
`ProxyStage` is an `OrderedStage` with the overrides for the version that `initialize` settles, and
`TypedStage` that of a proxy with the types of one version; `HookStage` is in `proxy.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, field

from accord.connection.tasks import Owning, Tasks, discard_with, ends_process, is_being_cancelled
from accord.errors import (
    ConnectionClosed,
    DecodeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    RequestCancelled,
    RequestError,
)
from accord.proxy.stage import (
    Direction,
    Params,
    PassingLanes,
    Port,
    RawRequest,
    RawResponse,
    Release,
    Run,
    Stage,
    session_id_of,
)
from accord.roles.proxy import TypedProxy, proxied_methods
from accord.roles.remote import result_decoder
from accord.rules.quirks import QUIRKS
from accord.text import lenient_json
from accord.transports.base import Frame
from accord.types.steering import STEERING, is_advertised
from accord.wire.codec import decoder, encode, overlay
from accord.wire.protocol import Method

log: logging.Logger = logging.getLogger("accord.proxy")

_CLOSE_S = 5.0
# For one direction, if one connection carries both: more is not read, of neither direction.
_MAX_WAITING_BYTES = 8 * 1024 * 1024
_BACK = {Direction.TO_AGENT: Direction.TO_CLIENT, Direction.TO_CLIENT: Direction.TO_AGENT}

# Handles a notification, and passes it on by a port of the stage if it should arrive.
NotificationHandler: TypeAlias = Callable[[str, Params], Awaitable[None] | None]
# Returns the response to a request, which may come from `PassingRequest.forward`.
RequestHandler: TypeAlias = Callable[["PassingRequest"], Awaitable[RawResponse] | RawResponse]


class UpdateWatch(Protocol):
    """Decides by their texts which updates a handler has to see."""

    def find(self, run: Run) -> Sequence[int]:
        """Return the places of the updates that may matter, in their order."""
        ...

    def note(self, text: Frame) -> bool:
        """Note an update that passes unchanged; return False if the handler has to see it."""
        ...


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
        self.watch: UpdateWatch | None = None  # None: the handler of updates sees all of them
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
        lanes = self._lanes[Direction.TO_CLIENT]
        handler = self.notification_handler(Direction.TO_CLIENT, run.method)
        if lanes.are_free and handler is None:
            self.client.notify_run(run)
        elif handler is None or self.watch is None or run.method != "session/update":
            super().run_from_agent(run)
        elif lanes.are_free:
            self._pass_updates(run, self.watch, handler)
        else:
            self._submit_updates(run, self.watch, handler)

    def _pass_updates(self, run: Run, watch: UpdateWatch, handler: NotificationHandler) -> None:
        outcome, begin = self._pass_unseen(run, 0, watch, handler)
        if outcome is not None:
            text = run.texts[begin - 1]
            wait = partial(self._await, outcome, run.method)
            self._lanes[Direction.TO_CLIENT].submit(session_id_of(Raw(text)), len(text), wait)
            if begin < len(run.texts):
                self._submit_updates(run.part(begin, len(run.texts)), watch, handler)

    def _submit_updates(self, run: Run, watch: UpdateWatch, handler: NotificationHandler) -> None:
        """Let updates wait: together, if they are of one session."""
        session_id = run.session_id()
        if session_id is UNSET:
            super().run_from_agent(run)
            return

        def handle(release: Release) -> bool:
            outcome, begin = self._pass_unseen(run, 0, watch, handler)
            if outcome is None:
                return False
            rest = self._pass_rest(outcome, run, begin, watch, handler)
            return self._await(Owning(rest, outcome), run.method, release)

        self._lanes[Direction.TO_CLIENT].submit(session_id, len(run.joined), handle)

    async def _pass_rest(
        self,
        outcome: Awaitable[None] | None,
        run: Run,
        begin: int,
        watch: UpdateWatch,
        handler: NotificationHandler,
    ) -> None:
        while outcome is not None:
            await self._wait(outcome, run.method)
            outcome, begin = self._pass_unseen(run, begin, watch, handler)

    def _pass_unseen(
        self, run: Run, begin: int, watch: UpdateWatch, handler: NotificationHandler
    ) -> tuple[Awaitable[None] | None, int]:
        """Handle the updates that the handler has to see, and pass on those between together.

        Return what the handler has to be awaited for, and the place of the next update.
        """
        for number in watch.find(run):
            text = run.texts[number]
            if number < begin or watch.note(text):
                continue
            self._pass_part(run, begin, number)
            begin = number + 1
            if (outcome := self._handle(handler, run.method, Raw(text))) is not None:
                return outcome, begin
        self._pass_part(run, begin, len(run.texts))
        return None, len(run.texts)

    def _pass_part(self, run: Run, begin: int, end: int) -> None:
        if begin < end:
            self.client.notify_run(run.part(begin, end))

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
        task = self.spawn(self._wait(outcome, method), f"accord {self.name} {method}")
        task.add_done_callback(lambda _: release())
        discard_with(task, outcome)
        return True

    async def _wait(self, outcome: Awaitable[None], method: str) -> None:
        try:
            await outcome
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
        except BaseException as exc:
            log.exception("! %s: the handler of %s failed", self.name, method)
            if ends_process(exc):
                raise

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
        self._awaited: set[asyncio.Future[RawResponse]] = set()  # of `forward`

    @property
    def is_cancelled(self) -> bool:
        """Whether the sender has cancelled the request."""
        return self._request.is_cancelled

    async def forward(
        self, *, method: str | None = None, params: Params | None = None
    ) -> RawResponse:
        """Send the request on, with other params if they are given; return the response.

        While this waits, later messages of the session pass. The response comes after all messages
        that arrived before it, and later ones wait for the handler again. May be called repeatedly,
        also at the same time: then they wait from the last response on.
        Cancelling the waiting task cancels the request that was sent on.
        """
        response: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        session_id = session_id_of(self.params)
        back = self._stage.lanes_back(self.to)

        def answered(received: RawResponse) -> None:
            def run(release: Release) -> bool:
                self._awaited.discard(response)
                if response.done():
                    return False
                response.set_result(received)
                if self._awaited:  # the handler may wait for them, too
                    return False
                self._release = release
                return True

            # A response without a session may open one, whose updates must come after it.
            back.submit(session_id, _response_size(received), run, gates=session_id is None)

        self._awaited.add(response)
        derived = self._request.derive(answered, method=method, params=params)
        self._stage.port(self.to).request(derived)
        self._release()
        try:
            return await response
        except asyncio.CancelledError:
            if not self._request.is_cancelled:
                derived.cancel()
            raise
        finally:
            self._awaited.discard(response)
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


# Edited JSON: what was not changed keeps the text that was received.

_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode


def edited_text(text: Raw, value: Any, edited: Any) -> Raw:
    """Return the JSON text of `edited`, which shares parts with `value`, the value of `text`.

    A part that is the same object keeps its text, with its numbers and the order of its keys.
    """
    try:
        bytes(text).decode()
        return Raw(_encode(_parts(text, value, edited)))
    except UnicodeError:  # bytes that should not be passed on; lone surrogates in what is new
        return Raw(lenient_json.dumps(edited))


def _parts(text: Raw, value: Any, edited: Any) -> Any:
    """Return the edited value with the texts of what is in the other one."""
    if edited is value:
        return text
    if lenient_json.is_object(value) and lenient_json.is_object(edited):
        texts = _member_texts(text)
        return {
            key: _parts(texts[key], value[key], item) if key in texts else item
            for key, item in edited.items()
        }
    if lenient_json.is_array(value) and lenient_json.is_array(edited):
        return _items(text, value, edited)
    return edited


def _member_texts(text: Raw) -> dict[str, Raw]:
    try:
        return _members(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # for example lone surrogates
        return {key: Raw(raw) for key, raw in lenient_json.member_texts(bytes(text)).items()}


def _items(text: Raw, value: list[Any], edited: list[Any]) -> list[Any]:
    try:
        texts = _elements(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return edited
    if len(value) == len(edited):
        return [_parts(*triple) for triple in zip(texts, value, edited, strict=True)]
    own = {id(item): text for item, text in zip(value, texts, strict=True)}
    return [own.get(id(item), item) for item in edited]


# Overrides: what a proxy handles, by method and direction.

# Gets the method and the params of a notification; returns those to pass on, None to drop it.
Edit: TypeAlias = Callable[[str, Params], Params | None | Awaitable[Params | None]]

# Names a handler in errors; a function gets the params of the request.
Label: TypeAlias = str | Callable[[Any], str]

_decode_any = decoder(Any)
_EARLY = QUIRKS["early-methods"].methods


def raw_of(value: Any) -> Raw:
    """Return a wire value as JSON text."""
    return Raw(encode(value))


def edited_json(text: Params, before: Any, after: Any) -> Raw:
    """Return a JSON text with the difference between two values of it.

    What is equal in both keeps its text; without a difference, all of it does.
    """
    if text is UNSET:
        return raw_of(overlay(None, before, after))
    if after is before:
        return text
    value = lenient_json.loads(bytes(text))
    return edited_text(text, value, overlay(value, before, after))


class Overrides:
    """The handlers of one direction; those of extension methods also get the method.

    Params that a handler cannot read pass unchanged, because they may be of an older or a newer
    program. A request to the client does not pass: an agent could evade a proxy that refuses files.
    """

    def __init__(self, to: Direction) -> None:
        self.to: Direction = to
        self.requests: dict[str, RequestHandler] = {}
        self.notifications: dict[str, Edit] = {}
        self.extensions: dict[str, RequestHandler] = {}  # that are known
        self.extension_request: Callable[[str, Any, Any], Any] | None = None
        self.extension_notification: Callable[[str, Any], Any] | None = None
        self.label: str = ""

    def request(self, method: str) -> RequestHandler | None:
        """Return what handles the requests of a method."""
        if (known := self.extensions.get(method)) is not None:
            return known
        handle = self.extension_request
        if handle is None or not method.startswith("_"):
            if self._evades(method, self.notifications):
                return _refuse_request
            # Clients may still serve the early names.
            return self.requests.get(method) or self.requests.get(_EARLY.get(method, method))
        return _typed(_decode_any, _decode_any, None, partial(handle, method), self.label, self.to)

    def notification(self, method: str) -> Edit | None:
        """Return what edits the notifications of a method."""
        handle = self.extension_notification
        if handle is None or not method.startswith("_"):
            if self._evades(method, self.requests):
                return _drop_notification
            return self.notifications.get(method)
        return _edits(_decode_any, partial(handle, method))

    def add(self, method: Method, handler: Callable[..., Any], label: Label) -> None:
        """Add a handler of typed params: for a request it gets `forward`, too."""
        if method.is_request:
            self.requests[method.name] = request_override(method, handler, label, self.to)
        else:
            self.notifications[method.name] = _edits(decoder(method.params), handler)

    def add_extension(
        self, method: str, params_type: Any, handler: Callable[..., Any], label: str
    ) -> None:
        """Add a handler of the requests of a known extension, whose results are JSON values."""
        decode = decoder(params_type)
        self.extensions[method] = _typed(decode, _decode_any, None, handler, label, self.to)

    def _evades(self, method: str, others: Mapping[str, object]) -> bool:
        """Return whether a message to the client only lacks, or has, the id of what is handled."""
        return self.to is Direction.TO_CLIENT and _EARLY.get(method, method) in others


async def _refuse_request(request: PassingRequest) -> RawResponse:
    return RawResponse.of_error(MethodNotFound(f"{request.method} is a notification"))


def _drop_notification(method: str, _params: Params) -> None:
    log.warning("! %s dropped, because it has no id", method)


def _edits(decode: Callable[[Raw], Any], handler: Callable[[Any], Any]) -> Edit:
    def edit(method: str, params: Params) -> Params | None | Awaitable[Params | None]:
        try:
            before = decode(_json(params))
        except DecodeError as exc:
            log.warning("! %s passed on, because it is invalid: %s", method, exc)
            return params
        after = handler(before)
        if isawaitable(after):
            return Owning(later(params, before, after), after)
        return result(params, before, after)

    async def later(params: Params, before: Any, pending: Awaitable[Any]) -> Params | None:
        return result(params, before, await pending)

    def result(params: Params, before: Any, after: Any) -> Params | None:
        if after is before:
            return params
        return None if after is None else edited_json(params, before, after)

    return edit


def request_override(
    method: Method, handler: Callable[[Any, Any], Any], label: Label, to: Direction
) -> RequestHandler:
    """Return what handles a request by its typed params; `label` names the handler in errors."""
    decode_params, decode_result = decoder(method.params), result_decoder(method.result)
    return _typed(decode_params, decode_result, method.result, handler, label, to)


def _typed(
    decode_params: Callable[[Raw], Any],
    decode_result: Callable[[Raw], Any],
    result_type: Any,
    handler: Callable[[Any, Any], Any],
    label: Label,
    to: Direction,
) -> RequestHandler:
    async def handle(request: PassingRequest) -> RawResponse:
        try:
            params = decode_params(_json(request.params))
        except DecodeError as exc:
            if to is Direction.TO_CLIENT:
                log.warning("! %s refused, because it is invalid: %s", request.method, exc)
                data = {"path": exc.where, "reason": exc.message}
                error = InvalidParams(f"Invalid params: {exc}", data=data)
                return RawResponse.of_error(error)
            log.warning("! %s passed on, because it is invalid: %s", request.method, exc)
            return await request.forward()
        exchange = _Exchange(request, params, decode_result)
        try:
            value = handler(params, exchange.forward)
            if isawaitable(value):
                value = await value
            if value is None and result_type is not None:
                value = result_type()  # an empty result
            return exchange.response(value)
        except Exception as exc:  # noqa: BLE001  # answered
            return exchange.failure(exc, label if isinstance(label, str) else label(params))

    return handle


def _json(params: Params) -> Raw:
    return Raw(b"null") if params is UNSET else params


class _Exchange(Struct):
    """A request, and the last response to it."""

    request: PassingRequest
    params: Any
    decode: Callable[[Raw], Any]
    received: Any = None  # the result, or the error
    received_response: RawResponse | None = None

    async def forward(self, params: Any = None) -> Any:
        """Pass the request on, with these params instead of its own; return the result."""
        request = self.request
        if params is None or params is self.params:
            response = await request.forward()
        else:
            edited = edited_json(request.params, self.params, params)
            response = await request.forward(params=edited)
        self.received_response = response
        error = response.request_error()
        if error is None:
            assert response.result is not None, "neither a result nor an error"
            try:
                self.received = self.decode(response.result)
                return self.received
            except DecodeError as exc:
                log.warning("! the result of %s is invalid: %s", request.method, exc)
                error = InternalError(f"Invalid result of {request.method}", data=str(exc))
        self.received = error
        raise error

    def response(self, value: Any) -> RawResponse:
        """Return the response with a result."""
        last = self.received_response
        if last is None or last.result is None:
            return RawResponse(result=raw_of(value))
        if value is self.received:
            return last
        return RawResponse(result=edited_json(last.result, self.received, value))

    def failure(self, error: Exception, label: str) -> RawResponse:
        """Return the response for an exception."""
        if error is self.received and self.received_response is not None:
            return self.received_response  # as it was received
        if not isinstance(error, RequestError):
            log.error("! %s failed", label, exc_info=error)
            error = InternalError(f"The proxy failed: {label} raised an exception")
        return RawResponse.of_error(error)


# How a proxy describes what it does after the handshake, for `accord chain --explain`.
# Each proxy of Accord passes it on, and adds itself to the proxies of the result:
# `{"name": …, "handles": […], "tools": […], "commands": […]}`, with lists of names.
# Others pass it on, as everything that they do not know.
DESCRIBE = "_accord/proxy"
NO_PROXIES = RawResponse.of_result({"proxies": []})


def with_description(
    response: RawResponse, name: str, described: dict[str, list[str]]
) -> RawResponse:
    """Return the response of the proxies after a proxy, with its own description."""
    proxies = [{"name": name, **described}, *described_proxies(response)]
    return RawResponse.of_result({"proxies": proxies})


def described_proxies(response: RawResponse) -> list[dict[str, Any]]:
    value: Any = None if response.result is None else lenient_json.loads(bytes(response.result))
    proxies: Any = value.get("proxies") if lenient_json.is_object(value) else None
    if type(proxies) is not list:
        return []
    return [one for one in cast("list[Any]", proxies) if lenient_json.is_object(one)]


# A proxy that handles prompts, and not what the user says during a turn, must not be bypassed.


def _without_steering(result: Raw) -> Raw:
    """Return the result of `initialize` without the extension `_session/steering`."""
    value: Any = lenient_json.loads(bytes(result))
    if not lenient_json.is_object(value) or not is_advertised(value.get("_meta")):
        return result
    meta = {key: item for key, item in value["_meta"].items() if key != "steering"}
    edited = {key: item for key, item in value.items() if key != "_meta"}
    return edited_text(result, value, {**edited, "_meta": meta} if meta else edited)


async def _refuse_steering(request: PassingRequest) -> RawResponse:
    return RawResponse.of_error(
        MethodNotFound(f"{request.method} does not pass: a proxy handles prompts only")
    )


class _Version(Struct):
    protocol_version: int | None = field(name="protocolVersion", default=None)


_decode_version = decoder(_Version)


class ProxyStage(OrderedStage):
    """A Python proxy in a chain: `initialize` decides what it handles afterwards."""

    def __init__(self, name: str, *, is_steered: bool = True) -> None:
        super().__init__()
        self.name: str = name
        self._is_steered = is_steered  # what is said during a turn passes, or is handled
        self._overrides = {direction: Overrides(direction) for direction in Direction}
        # Called when `session/cancel` arrives: it does not wait in the lane of a prompt.
        self.on_session_cancel: Callable[[Params], None] | None = None
        # Serves an `mcp/message` of the agent, or returns False.
        self.on_mcp_request: Callable[[RawRequest], bool] | None = None
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self._handlers: dict[tuple[Direction, str], NotificationHandler] = {}

    # To override.

    def edit_initialize(self, params: Raw, version: int) -> Raw:
        """Return the params of `initialize` to pass on; raise `RequestError` to refuse."""
        raise NotImplementedError

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        """Return the result of `initialize` to pass on; raise `RequestError` to refuse."""
        raise NotImplementedError

    def initialize_handler(self) -> RequestHandler | None:
        """Return what handles `initialize` between these two, None to pass it on."""
        return None

    def describe(self) -> dict[str, list[str]]:
        """Return the names of what the proxy handles and adds, by their kind."""
        raise NotImplementedError

    def overrides(self, version: int, initialized: Raw) -> tuple[Overrides, ...]:
        """Return what the proxy handles in a chain of this version.

        `initialized` is the result of `initialize` that the client gets.
        """
        raise NotImplementedError

    # The rest calls these.

    async def aclose(self) -> None:
        """Cancel the running handlers, and release what they have opened."""
        await super().aclose()
        failures: list[Exception] = []
        for close in self.on_close:
            try:
                await close()
            except Exception as exc:  # noqa: BLE001  # raised when the others are closed
                failures.append(exc)
        if failures:
            raise failures[0]

    def request_from_client(self, request: RawRequest) -> None:
        if request.method != DESCRIBE:
            super().request_from_client(request)
            return

        def answered(response: RawResponse) -> None:
            request.answer(with_description(response, self.name, self.describe()))

        self.agent.request(request.derive(answered))

    def request_from_agent(self, request: RawRequest) -> None:
        serve = self.on_mcp_request
        if serve is None or request.method != "mcp/message" or not serve(request):
            super().request_from_agent(request)

    def notification_from_client(self, method: str, params: Params) -> None:
        if method == "session/cancel" and self.on_session_cancel is not None:
            self.on_session_cancel(params)
        super().notification_from_client(method, params)

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        found = self._handlers.get((to, method))
        if found is None and (edit := self._overrides[to].notification(method)) is not None:
            found = self._handler(to, edit)
            if not method.startswith("_"):
                self._handlers[to, method] = found
        return found

    def _handler(self, to: Direction, edit: Edit) -> NotificationHandler:
        port = self.port(to)

        def handle(method: str, params: Params) -> Awaitable[None] | None:
            edited = edit(method, params)
            if edited is None:
                return None
            if isawaitable(edited):
                return Owning(later(method, edited), edited)
            port.notify(method, edited)
            return None

        async def later(method: str, pending: Awaitable[Params | None]) -> None:
            edited = await pending
            if edited is not None:
                port.notify(method, edited)

        return handle

    def request_handler(self, to: Direction, method: str) -> RequestHandler | None:
        if method == "initialize" and to is Direction.TO_AGENT:
            return self._initialize
        return self._overrides[to].request(method)

    async def _initialize(self, request: PassingRequest) -> RawResponse:
        """Let the proxy edit both ways; what it handles afterwards depends on the version."""
        try:
            params = Raw(b"{}") if request.params is UNSET else request.params
            version = _decode_version(params).protocol_version or 0
            request.params = self.edit_initialize(params, version)
            handler = self.initialize_handler()
            if handler is None:
                response = await request.forward(params=request.params)
            else:
                handled = handler(request)
                response = await handled if isawaitable(handled) else handled
            if response.result is None:
                return response
            version = _decode_version(response.result).protocol_version or 0
            result = self.edit_initialized(response.result, version)
            for overrides in self.overrides(version, result):
                self._overrides[overrides.to] = overrides
            if not self._is_steered:
                result = _without_steering(result)
                self._overrides[Direction.TO_AGENT].extensions[STEERING] = _refuse_steering
            self._handlers.clear()
        except DecodeError as exc:
            return RawResponse.of_error(InvalidParams(f"Invalid initialize: {exc}"))
        except RequestError as exc:
            return RawResponse.of_error(exc)
        except Exception:
            log.exception("! %s failed in initialize", self.name)
            error = InternalError(f"The proxy failed: {self.name} raised an exception")
            return RawResponse.of_error(error)
        return RawResponse(result=result)


class TypedStage(ProxyStage):
    """Calls the methods that a typed proxy overrides (`accord.v1.Proxy`, `accord.v2.Proxy`)."""

    def __init__(self, proxy: TypedProxy) -> None:
        self._methods = {method.call: method for method in proxied_methods(proxy)}
        # There is no method for it: `extension_request` handles it.
        is_steered = "prompt" not in self._methods or _overrides(
            proxy, TypedProxy, "extension_request"
        )
        super().__init__(type(proxy).__name__, is_steered=is_steered)
        self._proxy = proxy
        self._initialize_method = self._methods.pop("initialize", None)

    def edit_initialize(self, params: Raw, version: int) -> Raw:
        """Raise `InvalidRequest` for another version."""
        self._check(version)
        return params

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        """Raise `InvalidRequest` for another version."""
        self._check(version)
        return result

    def _check(self, version: int) -> None:
        own = self._proxy.spec.version
        if version != own:
            raise InvalidRequest(
                f"The proxy {self.name} supports version {own} of the protocol, and the chain"
                f" has version {version}",
                data={"supported": [own], "requested": version},
            )

    def initialize_handler(self) -> RequestHandler | None:
        """Return the handler of `initialize`, if it is overridden."""
        method = self._initialize_method
        if method is None:
            return None
        label = f"{self.name}.initialize"
        return request_override(method, self._call_initialize, label, Direction.TO_AGENT)

    def _call_initialize(self, params: Any, forward: Any) -> Any:
        async def checked(changed: Any = None) -> Any:
            if changed is not None and changed.protocol_version != params.protocol_version:
                raise LocalProtocolError("A proxy must not change protocolVersion")  # R-PROXY-14
            return await forward(changed)

        proxy: Any = self._proxy
        return proxy.initialize(params, checked)

    def describe(self) -> dict[str, list[str]]:
        """Return the overridden methods."""
        names = ("extension_request", "extension_notification")
        extensions = [name for name in names if _overrides(self._proxy, TypedProxy, name)]
        first = ["initialize"] if self._initialize_method else []
        return {"handles": [*first, *self._methods, *extensions]}

    def overrides(self, version: int, initialized: Raw) -> tuple[Overrides, ...]:
        """Return the overridden methods of both directions."""
        to_agent, to_client = Overrides(Direction.TO_AGENT), Overrides(Direction.TO_CLIENT)
        for call, method in self._methods.items():
            side = to_agent if method.to == "agent" else to_client
            side.add(method, getattr(self._proxy, call), f"{self.name}.{call}")
        add_extensions(self._proxy, TypedProxy, to_agent, to_client)
        return to_agent, to_client


def add_extensions(proxy: object, base: type[object], *sides: Overrides) -> None:
    """Add the handlers of extension methods that a proxy overrides."""
    own = cast("Any", proxy)
    for side in sides:
        side.label = f"{type(proxy).__name__}.extension_request"
        if _overrides(proxy, base, "extension_request"):
            side.extension_request = own.extension_request
        if _overrides(proxy, base, "extension_notification"):
            side.extension_notification = own.extension_notification


def _overrides(proxy: object, base: type[object], name: str) -> bool:
    return getattr(type(proxy), name) is not getattr(base, name)
