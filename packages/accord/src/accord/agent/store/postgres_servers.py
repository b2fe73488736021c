"""The connections of a server to PostgreSQL, and the server as the others see it.

`Database` is a small pool, which repeats work if its connection is lost. `Server` has a number, a
lock on it and a lease. `AppendQueue` appends entries of many sessions with one statement at a time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from msgspec import Struct

from accord.errors import SessionTaken, StoreUnavailable

# The tables of stored sessions in PostgreSQL.

_VERSION = 1
_LOCK = "accord: create the tables"

# `fence` grows with each owner of a session. `last_append` is the random id of the last batch of
# entries: after a lost connection, it shows whether the batch was stored. Text is compared by
# bytes, as in other stores.
_TABLES = """
CREATE TABLE accord_version (version integer NOT NULL);
CREATE TABLE accord_servers (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE TABLE accord_sessions (
    id text COLLATE "C" PRIMARY KEY,
    cwd text COLLATE "C" NOT NULL,
    additional text NOT NULL,
    title text,
    title_is_users boolean NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    archived boolean NOT NULL,
    principal text COLLATE "C",
    entries bigint NOT NULL DEFAULT 0,
    last_append bigint NOT NULL,
    owner integer,
    fence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX accord_sessions_by_time ON accord_sessions (updated_at DESC, id DESC);
CREATE TABLE accord_entries (
    session_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    entry bytea NOT NULL,
    PRIMARY KEY (session_id, number)
);
"""


async def create_tables(connection: Any) -> None:
    """Create the tables if they do not exist; raise `ValueError` for those of a newer Accord."""
    if await _version(connection) is not None:
        return
    async with connection.transaction():
        # Only one server creates them; the others wait.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", _LOCK)
        if await _version(connection) is None:
            await connection.execute(_TABLES)
            await connection.execute("INSERT INTO accord_version VALUES ($1)", _VERSION)


async def _version(connection: Any) -> int | None:
    # `to_regclass` would be shorter, and may not see a table that another server has just created.
    if not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_class"
        " WHERE relname = 'accord_version' AND pg_table_is_visible(oid))"
    ):
        return None
    version = await connection.fetchval("SELECT version FROM accord_version")
    if version > _VERSION:
        raise ValueError(
            f"The tables have version {version}, created by a newer Accord: expected {_VERSION}"
        )
    return version


# A small pool of connections to PostgreSQL; work is repeated if its connection is lost.

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


# This server as the other servers see it: a number, a lock on it, and a lease.

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


_BATCH_BYTES = 4 << 20
_ATTEMPTS = 5  # for a session whose position was not known

# A row of `input` per session; `stored` numbers the entries from the count of the session on.
# PostgreSQL repeats the conditions of the update if it had to wait for another writer. An owner
# also checks the count: a statement that was delayed in the network does nothing when it arrives.
_APPEND = """
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS input (id, fence, before, count, append)
), changed AS (
    UPDATE accord_sessions AS s
    SET entries = s.entries + input.count, last_append = input.append
    FROM input
    WHERE s.id = input.id AND s.last_append <> input.append
        AND CASE WHEN input.fence IS NULL THEN s.owner IS NULL
            ELSE s.fence = input.fence AND s.entries = input.before END
    RETURNING s.id, s.entries - input.count AS before
), stored AS (
    INSERT INTO accord_entries (session_id, number, entry)
    SELECT changed.id, changed.before + added.position, added.entry
    FROM unnest($6::text[], $7::bigint[], $8::bytea[]) AS added (id, position, entry)
    JOIN changed ON changed.id = added.id
)
SELECT id FROM changed
"""
_STATE = "SELECT id, last_append, fence, entries FROM accord_sessions WHERE id = ANY($1::text[])"


class Position(Struct, eq=False):
    """Where the owner of a session appends: its fence, and the number of entries."""

    fence: int
    count: int


class _Append(Struct):
    session_id: str
    position: Position | None
    entries: Sequence[bytes]
    done: asyncio.Future[None]


class _Batch(Struct):
    """What one statement appends to one session."""

    position: Position | None
    append: int
    entries: list[bytes]
    done: list[asyncio.Future[None]]


class AppendQueue:
    """Appends entries; while a statement runs, the next ones are collected."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Append] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def append(
        self, session_id: str, position: Position | None, entries: Sequence[bytes]
    ) -> None:
        """Append entries, durably when this returns; `position` is that of the owner.

        Raises KeyError for an unknown session, `SessionTaken` if its fence is another one, and
        `StoreUnavailable`. Without a position, the session must not have an owner.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Append(session_id, position, entries, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="accord store: append")
        await done

    async def aclose(self) -> None:
        """Wait until everything is written, or has failed."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        batches: dict[str, _Batch] = {}
        try:
            while self._waiting:
                batches = self._take()
                await self._write_batches(batches)
        finally:
            self._writing = None
            for batch in batches.values():  # only if the task was cancelled
                for done in batch.done:
                    done.cancel()
            while self._waiting:
                self._waiting.popleft().done.cancel()

    def _take(self) -> dict[str, _Batch]:
        """Return waiting entries by session."""
        batches: dict[str, _Batch] = {}
        size = 0
        while self._waiting and size < _BATCH_BYTES:
            first = self._waiting[0]
            batch = batches.get(first.session_id)
            if batch is None:
                batch = batches[first.session_id] = _Batch(first.position, append_id(), [], [])
            elif batch.position is not first.position:
                break  # the session has another owner of this process
            self._waiting.popleft()
            batch.entries += first.entries
            batch.done.append(first.done)
            size += sum(map(len, first.entries))
        return batches

    async def _write_batches(self, batches: dict[str, _Batch]) -> None:
        async def work(connection: Any) -> dict[str, Exception]:
            return await _append(connection, batches)

        failed: dict[str, Exception] = {}
        error: Exception | None = None
        try:
            failed = await self._database.run(work)
        except Exception as exc:  # noqa: BLE001  # of any kind: the callers raise it
            error = exc
        for session_id, batch in batches.items():
            found = error or failed.get(session_id)
            for done in batch.done:
                if done.done():
                    continue  # the caller was cancelled
                if found is None:
                    done.set_result(None)
                else:
                    done.set_exception(found)
        batches.clear()


async def _append(connection: Any, batches: dict[str, _Batch]) -> dict[str, Exception]:
    """Append batches; return the errors of sessions that rejected them."""
    errors: dict[str, Exception] = {}
    rest = batches
    for _ in range(_ATTEMPTS):
        rest = await _append_once(connection, rest, errors)
        if not rest:
            break
    return errors | {session_id: StoreUnavailable() for session_id in rest}


async def _append_once(
    connection: Any, batches: dict[str, _Batch], errors: dict[str, Exception]
) -> dict[str, _Batch]:
    """Append batches; return those whose position was wrong, and is corrected now."""
    positions = [batch.position for batch in batches.values()]
    parts = [
        (session_id, position, entry)
        for session_id, batch in batches.items()
        for position, entry in enumerate(batch.entries)
    ]
    rows = await connection.fetch(
        _APPEND,
        list(batches),
        [None if position is None else position.fence for position in positions],
        [None if position is None else position.count for position in positions],
        [len(batch.entries) for batch in batches.values()],
        [batch.append for batch in batches.values()],
        [part[0] for part in parts],
        [part[1] for part in parts],
        [part[2] for part in parts],
    )
    done: set[str] = {row[0] for row in rows}
    for session_id in done:
        batch = batches[session_id]
        if batch.position is not None:
            batch.position.count += len(batch.entries)
    rest = [session_id for session_id in batches if session_id not in done]
    if not rest:
        return {}
    state = {row[0]: tuple(row)[1:] for row in await connection.fetch(_STATE, rest)}
    again: dict[str, _Batch] = {}
    for session_id in rest:
        batch = batches[session_id]
        if session_id not in state:
            errors[session_id] = KeyError(session_id)
            continue
        last_append, fence, entries = state[session_id]
        is_stored = last_append == batch.append  # by an attempt whose connection was lost
        if batch.position is not None and batch.position.fence == fence:
            # An append that failed because its connection was lost has been stored after all.
            batch.position.count = entries
            if not is_stored:
                again[session_id] = batch
        elif not is_stored:
            errors[session_id] = SessionTaken(data={"sessionId": session_id})
    return again


def append_id() -> int:
    """Return a random id for a batch of entries."""
    return secrets.randbits(63)
