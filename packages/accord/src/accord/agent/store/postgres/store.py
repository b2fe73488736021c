"""The store of sessions in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from accord.agent.store.base import (
    PAGE_ENTRIES,
    Archived,
    SessionPage,
    SessionStore,
    StoredSession,
    make_page,
    parse_cursor,
)
from accord.agent.store.postgres.append_queue import AppendQueue, append_id
from accord.agent.store.postgres.database import Database
from accord.agent.store.postgres.ownership import Ownership, PostgresSession
from accord.agent.store.postgres.rows import is_storable, row_of
from accord.agent.store.rows import COLUMNS, stored_of

_PAGE_BYTES = 1 << 20


class PostgresStore(SessionStore):
    """Stores sessions in PostgreSQL, which several servers share; requires the extra `postgres`.

    `dsn` is `postgresql://USER:PASSWORD@HOST/DATABASE`. The tables are created when the store is
    first used. An appended entry has been committed. The store uses up to five connections.

    One server owns a session at a time. If another opens it, the owner closes it; an owner that is
    dead or does not do so within `lease_s` seconds loses it, and its writes raise `SessionTaken`.

    If the database cannot be reached, work waits for up to 10 s and then raises `StoreUnavailable`.
    Raises `ValueError` for tables of a newer version of Accord.
    """

    def __init__(self, dsn: str, *, lease_s: float = 10.0) -> None:
        self._database = Database(dsn)
        self._appends = AppendQueue(self._database)
        self._ownership = Ownership(self, self._database, self._appends, lease_s)

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        append = append_id()

        async def work(connection: Any) -> None:
            if not entries:
                await _insert(connection, session, append, 0)
                return
            async with connection.transaction():
                if not await _insert(connection, session, append, len(entries)):
                    return  # by an attempt whose connection was lost
                await connection.copy_records_to_table(
                    "accord_entries",
                    records=[(session.id, number, entry) for number, entry in enumerate(entries)],
                )

        await self._database.run(work)

    async def get(self, session_id: str) -> StoredSession | None:
        if not is_storable(session_id):
            return None
        query = f"SELECT {COLUMNS} FROM accord_sessions WHERE id = $1"

        async def work(connection: Any) -> Any:
            return await connection.fetchrow(query, session_id)

        row = await self._database.run(work)
        return None if row is None else stored_of(row)

    async def update(self, session: StoredSession) -> None:
        async def work(connection: Any) -> Any:
            return await connection.fetchval(
                "UPDATE accord_sessions SET (cwd, additional, title, title_is_users, updated_at,"
                " archived, principal) = ($2, $3, $4, $5, $6, $7, $8) WHERE id = $1 RETURNING id",
                *row_of(session),
            )

        if await self._database.run(work) is None:
            raise KeyError(session.id)

    async def append(self, session_id: str, entry: bytes) -> None:
        if not is_storable(session_id):
            raise KeyError(session_id)
        await self._appends.append(session_id, None, (entry,))

    async def read(self, session_id: str) -> list[bytes]:
        return [entry async for page in self.read_pages(session_id) for entry in page]

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        async def end(connection: Any) -> int | None:
            query = "SELECT entries FROM accord_sessions WHERE id = $1"
            return await connection.fetchval(query, session_id)

        until = await self._database.run(end) if is_storable(session_id) else None
        if until is None:
            raise KeyError(session_id)
        first = 0
        while first < until:
            page: list[bytes] = await self._database.run(_Page(session_id, first, until))
            if not page:
                return  # the session has been deleted
            first += len(page)
            yield page

    async def copy(self, session_id: str, session: StoredSession) -> None:
        append = append_id()

        async def work(connection: Any) -> None:
            async with connection.transaction():
                count = await connection.fetchval(
                    "SELECT entries FROM accord_sessions WHERE id = $1 FOR SHARE", session_id
                )
                if count is None:
                    raise KeyError(session_id)
                if not await _insert(connection, session, append, count):
                    return
                await connection.execute(
                    "INSERT INTO accord_entries (session_id, number, entry)"
                    " SELECT $1, number, entry FROM accord_entries WHERE session_id = $2",
                    session.id,
                    session_id,
                )

        if not is_storable(session_id):
            raise KeyError(session_id)
        await self._database.run(work)

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        conditions = ["true"]
        values: list[Any] = [limit + 1]
        if cwd is not None:
            values.append(cwd)
            conditions.append(f"cwd = ${len(values)}")
        if archived != "include":
            values.append(archived == "only")
            conditions.append(f"archived = ${len(values)}")
        if principal is not None:
            values.append(principal)
            conditions.append(f"principal = ${len(values)}")
        if cursor is not None:
            if not is_storable(cursor):
                raise ValueError("invalid cursor")
            values += parse_cursor(cursor)
            conditions.append(f"(updated_at, id) < (${len(values) - 1}, ${len(values)})")
        query = (
            f"SELECT {COLUMNS} FROM accord_sessions WHERE {' AND '.join(conditions)}"
            " ORDER BY updated_at DESC, id DESC LIMIT $1"
        )

        async def work(connection: Any) -> Any:
            return await connection.fetch(query, *values)

        if not all(is_storable(text) for text in (cwd, principal) if text is not None):
            return SessionPage(())
        return make_page([stored_of(row) for row in await self._database.run(work)], limit)

    async def delete(self, session_id: str) -> None:
        async def work(connection: Any) -> None:
            async with connection.transaction():
                # This waits for a writer, whose entries the second statement sees.
                await connection.execute("DELETE FROM accord_sessions WHERE id = $1", session_id)
                query = "DELETE FROM accord_entries WHERE session_id = $1"
                await connection.execute(query, session_id)

        if is_storable(session_id):
            await self._database.run(work)

    async def own(self, session_id: str, lost: Callable[[], None]) -> PostgresSession:
        if not is_storable(session_id):
            raise KeyError(session_id)
        return await self._ownership.own(session_id, lost)

    async def is_owned(self, session_id: str) -> bool:
        return is_storable(session_id) and await self._ownership.is_owned(session_id)

    async def aclose(self) -> None:
        await self._appends.aclose()
        await self._ownership.aclose()
        await self._database.aclose()


class _Page:
    """Reads the entries of a session from `first` on, up to `until`."""

    def __init__(self, session_id: str, first: int, until: int) -> None:
        self._values = session_id, first, min(until, first + PAGE_ENTRIES)

    async def __call__(self, connection: Any) -> Any:
        rows = await connection.fetch(
            "SELECT entry FROM (SELECT number, entry,"
            " sum(octet_length(entry)) OVER (ORDER BY number) - octet_length(entry) AS before"
            " FROM accord_entries WHERE session_id = $1 AND number >= $2 AND number < $3) AS e"
            " WHERE before < $4 ORDER BY number",
            *self._values,
            _PAGE_BYTES,
        )
        return [row[0] for row in rows]


async def _insert(connection: Any, session: StoredSession, append: int, count: int) -> bool:
    """Insert a session; return False if this `append` already did, raise `ValueError` if another.

    An attempt whose connection was lost may have inserted it.
    """
    found = await connection.fetchval(
        f"INSERT INTO accord_sessions ({COLUMNS}, entries, last_append)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id",
        *row_of(session),
        count,
        append,
    )
    if found is not None:
        return True
    query = "SELECT last_append FROM accord_sessions WHERE id = $1"
    if await connection.fetchval(query, session.id) != append:
        raise ValueError(f"session {session.id} already exists")
    return False
