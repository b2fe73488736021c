"""This server as the other servers see it: a number, a lock on it, and a lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from accord.agent.store.postgres.database import COMMAND_S, LOST, Database
from accord.errors import StoreUnavailable

log: logging.Logger = logging.getLogger("accord.agent")

_PAUSE_S = 0.5  # before the next attempt to connect
_FORGET_S = 3600.0  # after its lease, a server is deleted

# Tables of different schemas of one database use different locks and channels.
_KEY = "hashtext('accord_servers'::regclass::oid::text)"
_REGISTER = (
    "INSERT INTO accord_servers (expires_at)"
    " VALUES (clock_timestamp() + make_interval(secs => $1)) RETURNING number"
)
_RENEW = (
    "UPDATE accord_servers SET expires_at = clock_timestamp() + make_interval(secs => $2)"
    " WHERE number = $1"
)
# A lock that is free is released at the end of the statement.
_IS_ALIVE = f"""
SELECT EXISTS (
    SELECT FROM accord_servers WHERE number = $1 AND expires_at > clock_timestamp()
) AND NOT pg_try_advisory_xact_lock_shared({_KEY}, $1)
"""
_FORGET = (
    "DELETE FROM accord_servers WHERE number = $1"
    " OR expires_at < clock_timestamp() - make_interval(secs => $2)"
)


class Server:
    """Keeps a connection that holds the lock of this server, renews its lease and gets messages.

    If the process ends, its connection closes, which releases the lock: the server is dead. If its
    machine falls silent, the lease expires. Each connection has a new number. `renewed` is called
    with the number after each renewal, and after a new connection with the previous number, too.
    `received` is called with each message that a server has sent.
    """

    def __init__(
        self,
        database: Database,
        lease_s: float,
        renewed: Callable[[Any, int, int | None], Awaitable[None]],
        received: Callable[[str], None],
    ) -> None:
        self._database = database
        self._lease_s = lease_s
        self._renewed = renewed
        self._received = received
        self._number: int | None = None  # None: not connected
        self._previous: int | None = None
        self._connected = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._logged = ""  # why it is not connected

    async def number(self) -> int:
        """Return the number of this server; raise `StoreUnavailable` if it cannot connect."""
        if self._keeping is None:
            # Errors that a later attempt does not mend are raised here.
            await self._database.run(_nothing)
            self._keeping = asyncio.create_task(self._keep(), name="accord store: server")
        try:
            async with asyncio.timeout(COMMAND_S):
                while self._number is None:
                    await self._connected.wait()
        except TimeoutError:
            raise StoreUnavailable from None
        return self._number

    def has_number(self, number: int) -> bool:
        """Return whether this server has a number now."""
        return self._number == number

    def notify(self, connection: Any, message: str) -> Awaitable[Any]:
        """Send a message to all servers."""
        return connection.execute(f"SELECT pg_notify('accord_' || {_KEY}, $1)", message)

    async def is_alive(self, connection: Any, number: int) -> bool:
        """Return whether a server has its lock and its lease."""
        return await connection.fetchval(_IS_ALIVE, number)

    async def aclose(self) -> None:
        """Close the connection; the next use opens a new one."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _keep(self) -> None:
        while True:
            try:
                await self._keep_connection()
            except Exception as exc:
                # Not for each attempt.
                if (reason := repr(exc)) != self._logged:
                    self._logged = reason
                    shown = None if isinstance(exc, LOST) else exc
                    log.warning("! no connection to the database: %s", reason, exc_info=shown)
            await asyncio.sleep(_PAUSE_S)

    async def _keep_connection(self) -> None:
        """Be a server until the connection is lost."""
        connection = await self._database.connect()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda *_: lost.set())  # pyright: ignore[reportUnknownLambdaType]
            number = await connection.fetchval(_REGISTER, self._lease_s)
            await connection.execute(f"SELECT pg_advisory_lock({_KEY}, $1)", number)
            channel = await connection.fetchval(f"SELECT 'accord_' || {_KEY}")
            await connection.add_listener(channel, self._notified)
            await self._renewed(connection, number, self._previous)
            self._previous = self._number = number
            self._connected.set()
            self._logged = ""
            await connection.execute(_FORGET, None, _FORGET_S)
            while not lost.is_set():
                try:
                    async with asyncio.timeout(self._lease_s / 3):
                        await lost.wait()
                except TimeoutError:
                    await connection.execute(
                        _RENEW, number, self._lease_s, timeout=self._lease_s / 3
                    )
                    await self._renewed(connection, number, None)
            raise ConnectionResetError("closed by the database")
        except asyncio.CancelledError:  # `aclose`
            if self._number is not None:
                await connection.execute(_FORGET, self._number, _FORGET_S)
            await connection.close(timeout=COMMAND_S)
            raise
        finally:
            self._number = None
            self._connected.clear()
            connection.terminate()

    def _notified(self, _connection: Any, _pid: int, _channel: str, message: str) -> None:
        self._received(message)


async def _nothing(_connection: Any) -> None:
    """Check that the database can be used."""
