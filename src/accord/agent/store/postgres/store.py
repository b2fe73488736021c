"""The store of sessions in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
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

__all__ = ("PostgresStore",)

_PAGE_BYTES = 1 << 20
_COLUMNS = "id, cwd, additional, title, title_is_users, updated_at, archived, principal"


class PostgresStore(SessionStore):
    """Stores sessions in PostgreSQL, which several servers share; requires the extra `postgres`.

    `dsn` is `postgresql://USER:PASSWORD@HOST/DATABASE`. The tables are created when the store is
    first used. An appended entry has been committed. The store uses up to five connections.

    If the database cannot be reached, work waits for up to 10 s and then raises `StoreUnavailable`.
    Raises `ValueError` for tables of a newer version of Accord.
    """

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn)
        self._appends = AppendQueue(self._database)

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        append = append_id()

        async def work(connection: Any) -> None:
            async with connection.transaction():
                if not await _insert(connection, session, append, len(entries)):
                    return  # by an attempt whose connection was lost
                await connection.copy_records_to_table(
                    "accord_entries",
                    records=[(session.id, number, entry) for number, entry in enumerate(entries)],
                )

        await self._database.run(work)

    async def get(self, session_id: str) -> StoredSession | None:
        if not _is_storable(session_id):
            return None
        query = f"SELECT {_COLUMNS} FROM accord_sessions WHERE id = $1"

        async def work(connection: Any) -> Any:
            return await connection.fetchrow(query, session_id)

        row = await self._database.run(work)
        return None if row is None else _stored(row)

    async def update(self, session: StoredSession) -> None:
        async def work(connection: Any) -> Any:
            return await connection.fetchval(
                "UPDATE accord_sessions SET (cwd, additional, title, title_is_users, updated_at,"
                " archived, principal) = ($2, $3, $4, $5, $6, $7, $8) WHERE id = $1 RETURNING id",
                *_row(session),
            )

        if await self._database.run(work) is None:
            raise KeyError(session.id)

    async def append(self, session_id: str, entry: bytes) -> None:
        if not _is_storable(session_id):
            raise KeyError(session_id)
        await self._appends.append(session_id, None, (entry,))

    async def read(self, session_id: str) -> list[bytes]:
        return [entry async for page in self.read_pages(session_id) for entry in page]

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        async def end(connection: Any) -> int | None:
            query = "SELECT entries FROM accord_sessions WHERE id = $1"
            return await connection.fetchval(query, session_id)

        until = await self._database.run(end) if _is_storable(session_id) else None
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

        if not _is_storable(session_id):
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
            if not _is_storable(cursor):
                raise ValueError("invalid cursor")
            values += parse_cursor(cursor)
            conditions.append(f"(updated_at, id) < (${len(values) - 1}, ${len(values)})")
        query = (
            f"SELECT {_COLUMNS} FROM accord_sessions WHERE {' AND '.join(conditions)}"
            " ORDER BY updated_at DESC, id DESC LIMIT $1"
        )

        async def work(connection: Any) -> Any:
            return await connection.fetch(query, *values)

        if cwd is not None and not _is_storable(cwd):
            return SessionPage(())
        return make_page([_stored(row) for row in await self._database.run(work)], limit)

    async def delete(self, session_id: str) -> None:
        async def work(connection: Any) -> None:
            async with connection.transaction():
                # This waits for a writer, whose entries the second statement sees.
                await connection.execute("DELETE FROM accord_sessions WHERE id = $1", session_id)
                query = "DELETE FROM accord_entries WHERE session_id = $1"
                await connection.execute(query, session_id)

        if _is_storable(session_id):
            await self._database.run(work)

    async def aclose(self) -> None:
        await self._appends.aclose()
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
        f"INSERT INTO accord_sessions ({_COLUMNS}, entries, last_append)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id",
        *_row(session),
        count,
        append,
    )
    if found is not None:
        return True
    query = "SELECT last_append FROM accord_sessions WHERE id = $1"
    if await connection.fetchval(query, session.id) != append:
        raise ValueError(f"session {session.id} already exists")
    return False


def _row(session: StoredSession) -> tuple[Any, ...]:
    return (
        session.id,
        session.cwd,
        json.dumps(session.additional_directories),
        # PostgreSQL stores neither a lone surrogate nor NUL.
        None
        if session.title is None
        else session.title.encode("utf-8", "replace").decode().replace("\0", "?"),
        session.title_is_users,
        session.updated_at,
        session.archived,
        session.principal,
    )


def _stored(row: Any) -> StoredSession:
    session_id, cwd, additional, title, title_is_users, updated_at, archived, principal = row
    return StoredSession(
        id=session_id,
        cwd=cwd,
        additional_directories=tuple(json.loads(additional)),
        title=title,
        title_is_users=title_is_users,
        updated_at=updated_at,
        archived=archived,
        principal=principal,
    )


def _is_storable(text: str) -> bool:
    """Return whether PostgreSQL can represent a text; a client may send any."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
