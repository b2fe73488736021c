"""What a connection serves: routes, what handlers are told, and the bounds of it all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from accord.connection.trace_context import current_trace
from accord.errors import BacklogExceeded, DecodeError, MethodNotFound, RequestError
from accord.jsonrpc.message import RequestId
from accord.text.excerpt import excerpt

if TYPE_CHECKING:
    from accord.connection.connection import Connection

__all__ = ("Context", "Limits", "Route", "Routes", "not_served")


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a connection. Sizes in bytes, times in seconds."""

    waiting: int = 1024  # messages of a session: beyond, the peer waits if nothing else is read
    waiting_bytes: int = 8 * 1024 * 1024
    most_waiting: int = 65_536  # messages of a session: beyond, its consumer fails
    most_waiting_bytes: int = 64 * 1024 * 1024
    # Of all sessions: beyond, the largest one fails. Also of the requests that are being handled:
    # beyond, further ones are answered with an error.
    all_waiting_bytes: int = 256 * 1024 * 1024
    held: int = 16_384  # messages that wait for the end of `initialize`
    unread_answers_bytes: int = 16 * 1024 * 1024  # then requests are no longer read
    sessions: int = 10_000  # that are open at once, on an agent's connection
    requests: int = 16_384  # of the peer that are being handled at once
    eof_grace_s: float = 0.5  # for handlers of requests to finish once the peer has hung up
    drain_s: float = 30.0  # for handlers of notifications to finish what came before that
    close_timeout_s: float = 5.0


class Context:
    """What a handler may know and do besides its params; for a notification without an id."""

    __slots__ = ("connection", "request_id")

    def __init__(self, connection: Connection, request_id: RequestId) -> None:
        self.connection = connection
        self.request_id = request_id

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on with something after the handler has answered; the connection's end cancels it."""
        self.connection.spawn(work)

    @property
    def has_ended(self) -> bool:
        """Whether the peer is gone: what is sent to it now fails."""
        return self.connection.has_ended

    @property
    def trace(self) -> dict[str, Any]:
        """The W3C trace context that the request being handled carried in `_meta`."""
        return current_trace()


class Route(Struct, kw_only=True):
    """How one method is served: `handler(params, context)` returns the result or an awaitable.

    `cancelled` makes the answer of a request whose handler was cancelled, for methods that
    have one other than error -32800; `nothing` makes it of a None, where null is no result.
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
    """What is served at the moment.

    `missing(method, is_request)` finds a route for a method that is in no table, or the error
    to answer; `rescue(method, text)` may read params that did not decode in another way;
    `unreadable(method, text, error)` is told of notifications that nothing could read,
    `exceeded(session, error)` of sessions whose messages come faster than they are handled.
    """

    requests: dict[str, Route]
    notifications: dict[str, Route]
    context: Callable[[RequestId], Any]
    fallback: Callable[[str, bool], Route | RequestError]
    lenient_decode: Callable[[str, bytes], Any | None] = _no_lenient_decode
    on_undecodable: Callable[[str, bytes, DecodeError], None] = _ignore_undecodable
    on_backlog_exceeded: Callable[[Any, BacklogExceeded], None] = _ignore_backlog


def not_served(method: str, _is_request: bool) -> RequestError:
    """The `missing` of tables that are complete."""
    method = excerpt(method)
    return MethodNotFound(f"Method not found: {method}", data={"method": method})
