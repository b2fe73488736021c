"""The connection of a client that reconnects, as its `Remote` uses it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from accord.connection.connection import Connection
from accord.errors import AuthRequired, RequestError, TransportError, TurnInterrupted

log: logging.Logger = logging.getLogger("accord.client.reconnect")

_LOGINS = ("authenticate", "auth/login")
_LOGOUTS = ("logout", "auth/logout")


class _Login(Struct):
    """A request that logged in, and the connections on which it was sent."""

    method: str
    params: Any
    decode: Callable[[bytes | Raw], Any]
    made_on: Connection
    repeated_on: Connection | None = None
    was_repeated: bool = False


class ConnectionGate:
    """Passes calls to the current connection; while there is none, they wait.

    Calls in progress fail with their connection, and nothing is sent again. Only a prompt fails
    later, once the connection is established again and the state of its turn is known.
    A login is repeated on the next connection as soon as the agent requires it.
    Everything else is that of the current connection.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection: Connection = connection
        self.interrupted: dict[Any, TurnInterrupted] = {}
        """By session, how its turn was interrupted by the last loss."""
        self.unsent_prompts: set[Any] = set()
        """The sessions whose prompt waits for the next connection."""
        self._decided = asyncio.Event()  # the gate is open, or failed
        self._decided.set()
        self._error: TransportError | None = None
        self._login: _Login | None = None  # the caller's last one
        self._logging_in = asyncio.Lock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

    def shut(self) -> None:
        """Let calls wait: the connection was lost."""
        self._decided.clear()

    def open(self, connection: Connection) -> None:
        """Continue with a new connection."""
        self.connection = connection
        self._decided.set()

    def fail(self, error: TransportError) -> None:
        """Fail all calls, also those that wait."""
        self._error = error
        self._decided.set()

    async def _current(self) -> Connection:
        while True:
            if self._error is None and self.connection.has_ended:
                self.shut()  # before the loss was handled
            await self._decided.wait()
            if self._error is not None:
                raise self._error
            if not self.connection.has_ended:
                return self.connection

    async def call(
        self,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        *,
        session: Any = None,
    ) -> Any:
        """Send a request, as `Connection.call` does."""
        if method == "session/prompt":
            return await self._prompt(method, params, decode, session)
        connection = await self._current()
        result = await self._call(connection, method, params, decode, session)
        if method in _LOGINS:
            self._login = _Login(method, params, decode, connection)
        elif method in _LOGOUTS:
            self._login = None
        return result

    async def _call(
        self,
        connection: Connection,
        method: str,
        params: Any,
        decode: Callable[[bytes | Raw], Any],
        session: Any,
    ) -> Any:
        """Send a request; send it again if it needs the login of a lost connection."""
        try:
            return await connection.call(method, params, decode, session=session)
        except AuthRequired:
            if not await self.log_in_again(connection):
                raise
        return await connection.call(method, params, decode, session=session)

    async def log_in_again(self, connection: Connection) -> bool:
        """Repeat the login of a lost connection on this one, at most once (R-AUTH-12).

        Returns whether a request that needs it can be sent again.
        """
        async with self._logging_in:
            login = self._login
            if login is None or login.made_on is connection:
                return False
            if login.repeated_on is connection:
                return login.was_repeated
            login.repeated_on, login.was_repeated = connection, False
            try:
                await connection.call(login.method, login.params, login.decode)
            except RequestError as error:
                log.warning("! the agent does not accept the login again: %s", error)
            else:
                login.was_repeated = True
            return login.was_repeated

    async def _prompt(
        self, method: str, params: Any, decode: Callable[[bytes | Raw], Any], session: Any
    ) -> Any:
        self.unsent_prompts.add(session)
        try:
            connection = await self._current()
        finally:
            self.unsent_prompts.discard(session)
        try:
            return await self._call(connection, method, params, decode, session)
        except TransportError:
            await self._current()
            if (interrupted := self.interrupted.get(session)) is not None:
                raise interrupted from None
            raise

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification, as `Connection.notify` does."""
        connection = await self._current()
        await connection.notify(method, params)
