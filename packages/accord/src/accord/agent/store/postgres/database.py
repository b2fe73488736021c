"""A small pool of connections to PostgreSQL; work is repeated if its connection is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from accord.agent.store.postgres.schema import create_tables
from accord.errors import StoreUnavailable

log: logging.Logger = logging.getLogger("accord.agent")

T = TypeVar("T")

COMMAND_S = 10.0  # for one statement, and to connect
_RETRY_S = 10.0  # to repeat work whose connection was lost
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_CONNECTIONS = 4

_asyncpg: Any = asyncpg  # its functions have partial types

# The connection was lost, or the database will work again soon.
LOST: tuple[type[BaseException], ...] = (
    OSError,  # with TimeoutError
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,  # a shutdown, or a start that has not finished
    asyncpg.TooManyConnectionsError,
    asyncpg.TransactionRollbackError,  # a deadlock, for example
    asyncpg.ReadOnlySQLTransactionError,  # a server that has become a replica
)


class Database:
    """Connections to a database, opened when they are first used; `dsn` is its address."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._failing = False

    async def connect(self) -> Any:
        """Return a new connection, which is not of the pool; the caller closes it."""
        await self._opened()
        return await _asyncpg.connect(self._dsn, timeout=COMMAND_S, command_timeout=COMMAND_S)

    async def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Call `work` with a connection, again if that is lost; raise `StoreUnavailable`.

        The outcome of a statement is unknown if its connection was lost: `work` has to find out.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + _RETRY_S
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await self._attempt(work)
            except StoreUnavailable:
                if loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def run_once(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Call `work` with a connection, unless the database fails; raise `StoreUnavailable`."""
        if self._failing:
            raise StoreUnavailable
        return await self._attempt(work)

    async def _attempt(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            pool = await self._opened()
            async with pool.acquire(timeout=COMMAND_S) as connection:
                result = await work(connection)
        except LOST as exc:
            if isinstance(exc, ValueError):  # a value that asyncpg cannot encode
                raise
            if not self._failing:
                self._failing = True
                log.error("! the database of the sessions fails: %s", _reason(exc))
            raise StoreUnavailable from exc
        if self._failing:
            self._failing = False
            log.warning("! the database of the sessions works again")
        return result

    async def _opened(self) -> Any:
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                pool: Any = _asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=_CONNECTIONS,
                    timeout=COMMAND_S,
                    command_timeout=COMMAND_S,
                    reset=_keep,
                )
                await pool
                try:
                    async with pool.acquire(timeout=COMMAND_S) as connection:
                        await create_tables(connection)
                except BaseException:
                    pool.terminate()
                    raise
                self._pool = pool
        return self._pool

    async def aclose(self) -> None:
        """Close all connections; the next use opens new ones."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(COMMAND_S):
                await pool.close()
        except TimeoutError:
            pool.terminate()


async def _keep(connection: Any) -> None:
    """Leave a connection as it is: no work changes its settings, and a reset takes a round trip."""


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
