"""The dispatch table of a connection, and the context that handlers receive."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from msgspec import Raw, Struct

from accord.connection.trace_context import current_trace
from accord.errors import BacklogExceeded, DecodeError, MethodNotFound, RequestError
from accord.jsonrpc.message import RequestId
from accord.text.excerpt import excerpt


class ConnectionHandle(Protocol):
    """The part of a connection that handlers use."""

    message_bytes: int  # the size of the params that are being handled

    @property
    def has_ended(self) -> bool:
        """Whether the peer has disconnected, so that no response can come."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connection ends."""
        ...

    def cancel_where(self, matches: Callable[[str, Any], bool]) -> None:
        """Cancel the requests of the peer whose method and params match."""
        ...


class Context:
    """The second argument of a handler. `request_id` is None for notifications."""

    __slots__ = ("connection", "request_id")

    def __init__(self, connection: ConnectionHandle, request_id: RequestId) -> None:
        self.connection: ConnectionHandle = connection
        self.request_id: RequestId = request_id

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that outlives the handler; it is cancelled when the connection ends."""
        self.connection.spawn(work)

    @property
    def has_ended(self) -> bool:
        """Whether the peer has disconnected, so that sending fails."""
        return self.connection.has_ended

    @property
    def trace(self) -> dict[str, Any]:
        """The W3C trace context that the request being handled carried in `_meta`."""
        return current_trace()


class Route(Struct, kw_only=True):
    """Serves one method: `handler(params, context)` returns the result or an awaitable of it.

    `cancelled_result` returns the result of a request whose handler was cancelled; without it,
    the response is error -32800. `empty_result` replaces None if the method's result is an object.
    """

    decode: Callable[[bytes | Raw], Any]
    handler: Callable[[Any, Any], Any]
    cancelled_result: Callable[[], Any] | None = None
    empty_result: Callable[[], Any] | None = None


def _no_lenient_decode(_method: str, _text: bytes) -> Any | None:
    return None


def _ignore_undecodable(_method: str, _text: bytes, _error: DecodeError) -> None:
    pass


def _ignore_backlog(_session: Any, _error: BacklogExceeded) -> None:
    pass


class Routes(Struct, kw_only=True):
    """The dispatch table of a connection.

    `fallback(method, is_request)` returns a route for a method that is in neither table, or the
    error of the response. `lenient_decode(method, text)` may decode params that the route could
    not decode. `on_undecodable(method, text, error)` is called for notifications that could not be
    decoded, `on_backlog_exceeded(session, error)` for sessions whose messages arrive faster than
    they are handled.
    """

    requests: dict[str, Route]
    notifications: dict[str, Route]
    context: Callable[[RequestId], Any]
    fallback: Callable[[str, bool], Route | RequestError]
    lenient_decode: Callable[[str, bytes], Any | None] = _no_lenient_decode
    on_undecodable: Callable[[str, bytes, DecodeError], None] = _ignore_undecodable
    on_backlog_exceeded: Callable[[Any, BacklogExceeded], None] = _ignore_backlog


def not_served(method: str, _is_request: bool) -> RequestError:
    """Return "Method not found": the `fallback` of a complete table."""
    method = excerpt(method)
    return MethodNotFound(f"Method not found: {method}", data={"method": method})
