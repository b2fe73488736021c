"""Serves every method with raw params: for programs that pass messages on, such as proxies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw, Struct

from accord.connection.connection import Connection, Observer
from accord.connection.limits import Limits
from accord.connection.routes import Context, Route, Routes
from accord.errors import BacklogExceeded
from accord.text import lenient_json
from accord.transports.base import Transport


class _SessionId(Struct):
    session_id: str | None = msgspec.field(name="sessionId", default=None)


_decode_session_id = msgspec.json.Decoder(_SessionId).decode


class RawParams(Struct, frozen=True):
    """Params as JSON text. `session_id` is the session they belong to, which orders handlers."""

    text: Raw
    session_id: str | None

    @staticmethod
    def decode(text: bytes | Raw) -> RawParams:
        """Read the session id and leave the rest as it is."""
        try:
            session_id = _decode_session_id(text).session_id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            session_id = _session_id_leniently(bytes(text))
        return RawParams(text if isinstance(text, Raw) else Raw(text), session_id)

    @property
    def value(self) -> Any:
        """The params as builtin values."""
        return lenient_json.loads(bytes(self.text))


def _session_id_leniently(text: bytes) -> str | None:
    try:
        value = lenient_json.loads(text)
    except lenient_json.NotJson:
        return None
    session_id = value.get("sessionId") if lenient_json.is_object(value) else None
    return session_id if isinstance(session_id, str) else None


class RawRole(ABC):
    """Serves all methods of a connection, `initialize` included, without decoding params.

    Messages of one session are handled in order, as for typed roles.
    """

    @abstractmethod
    def request(self, method: str, params: RawParams, context: Context) -> Any:
        """Return the result, or an awaitable of it; raise `RequestError` for an error.

        The result may be a `msgspec.Raw`, which is sent as it is.
        """

    @abstractmethod
    def notification(self, method: str, params: RawParams, context: Context) -> Any:
        """Handle a notification; may return an awaitable."""

    def backlog_exceeded(  # noqa: B027  # may be overridden
        self, session_id: str | None, error: BacklogExceeded
    ) -> None:
        """Called when messages of a session are dropped because its handlers are too slow."""

    def routes(self, connection: Connection) -> Routes:
        """Return the routes of a connection that this role serves."""

        def fallback(method: str, is_request: bool) -> Route:
            handle = self.request if is_request else self.notification
            return Route(
                decode=RawParams.decode,
                handler=lambda params, context: handle(method, params, context),
            )

        return Routes(
            requests={},
            notifications={},
            context=lambda request_id: Context(connection, request_id),
            fallback=fallback,
            on_backlog_exceeded=self.backlog_exceeded,
        )


@asynccontextmanager
async def connect_raw(
    transport: Transport,
    role: RawRole,
    *,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> AsyncGenerator[Connection, None]:
    """Open a connection whose incoming messages a raw role serves; close it at the end.

    `Connection.call` and `Connection.notify` accept `RawParams.text` as params. Raise
    `TransportError` if the peer cannot be reached.
    """
    connection = Connection(transport, limits=limits)
    for observer in observers:
        connection.observe(observer)
    try:
        await connection.start(role.routes(connection))
        yield connection
    finally:
        await connection.aclose()


async def serve_raw(
    transport: Transport,
    role: RawRole,
    *,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one peer with a raw role until it disconnects."""
    async with connect_raw(transport, role, limits=limits, observers=observers) as connection:
        await connection.wait_ended()
