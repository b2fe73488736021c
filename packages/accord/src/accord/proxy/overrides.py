"""What a Python proxy handles in one chain, by method and direction."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct

from accord.connection.tasks import Owning
from accord.errors import DecodeError, InternalError, InvalidParams, MethodNotFound, RequestError
from accord.proxy.edited_text import edited_text
from accord.proxy.ordered import PassingRequest, RequestHandler
from accord.proxy.stage import Direction, Params, RawResponse
from accord.roles.remote import result_decoder
from accord.rules.quirks import QUIRKS
from accord.text import lenient_json
from accord.wire.codec import decoder, encode, overlay
from accord.wire.protocol import Method

log: logging.Logger = logging.getLogger("accord.proxy")

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
        self.extension_request: Callable[[str, Any, Any], Any] | None = None
        self.extension_notification: Callable[[str, Any], Any] | None = None
        self.label: str = ""

    def request(self, method: str) -> RequestHandler | None:
        """Return what handles the requests of a method."""
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
