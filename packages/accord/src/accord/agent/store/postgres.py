"""Sessions in PostgreSQL, which several servers share.

`PostgresStore` is the store. A session that is open belongs to one server, and no other server can
write to it: `Ownership`. What servers know of each other is in `postgres_servers`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from accord.agent.store import (
    COLUMNS,
    PAGE_ENTRIES,
    Archived,
    OwnedSession,
    SessionPage,
    SessionStore,
    StoredSession,
    make_page,
    parse_cursor,
    row_of,
    stored_of,
)
from accord.agent.store.postgres_servers import AppendQueue, Database, Position, Server, append_id
from accord.errors import AccordError, LocalProtocolError, SessionTaken

# What PostgreSQL can store of a session.


def _row_of(session: StoredSession) -> tuple[Any, ...]:
    """Return the values of `COLUMNS`; PostgreSQL stores no NUL."""
    if session.title is not None and "\0" in session.title:
        session = replace(session, title=session.title.replace("\0", "?"))
    return row_of(session)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can represent a text; a client may send any."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


# The sessions that this server owns: no other server can write to them.

log: logging.Logger = logging.getLogger("accord.agent")

_ASK_S = 0.5  # until the owner of a session is asked again

# Each owner has a greater fence than the previous one.
_TAKE_FREE = (
    "UPDATE accord_sessions SET owner = $2, fence = fence + 1"
    " WHERE id = $1 AND owner IS NULL RETURNING fence, entries"
)
_TAKE = (
    "UPDATE accord_sessions SET owner = $2, fence = fence + 1"
    " WHERE id = $1 AND fence = $3 RETURNING fence, entries"
)
_OWNER = "SELECT owner, fence FROM accord_sessions WHERE id = $1"
_RELEASE = "UPDATE accord_sessions SET owner = NULL WHERE id = $1 AND fence = $2"
_RELEASE_FORGOTTEN = "UPDATE accord_sessions SET owner = NULL WHERE id = $1 AND owner = $2"
_KEEP = (
    "UPDATE accord_sessions AS s SET owner = $1"
    " FROM unnest($2::text[], $3::bigint[]) AS kept (id, fence)"
    " WHERE s.id = kept.id AND s.fence = kept.fence"
)
_LOST = (
    "SELECT kept.id, kept.fence FROM unnest($1::text[], $2::bigint[]) AS kept (id, fence)"
    " LEFT JOIN accord_sessions AS s ON s.id = kept.id WHERE s.fence IS DISTINCT FROM kept.fence"
)
# The title that the user has set stays, also if another server has stored it.
_UPDATE = (
    "UPDATE accord_sessions SET cwd = $2, additional = $3,"
    " title = CASE WHEN title_is_users AND NOT $5 THEN title ELSE $4 END,"
    " title_is_users = title_is_users OR $5, updated_at = $6, archived = $7,"
    " principal = $8 WHERE id = $1 AND fence = $9 RETURNING id"
)


class PostgresSession(OwnedSession):
    """A session that this server owns; each write checks the fence in its transaction."""

    is_batched: ClassVar[bool] = True

    def __init__(
        self, ownership: Ownership, store: SessionStore, session_id: str, position: Position
    ) -> None:
        super().__init__(store, session_id)
        self.position = position
        self.is_wanted = False  # by another server, which waits for a message
        self._ownership = ownership
        self._is_released = False

    async def append(self, entries: Sequence[bytes]) -> None:
        """Append entries; raise `SessionTaken` if another server has become the owner."""
        self._check()
        await self._ownership.append(self, entries)

    async def update(self, session: StoredSession) -> None:
        """Replace the metadata; raise `SessionTaken` if another server has become the owner."""
        self._check()
        await self._ownership.update(self, session)

    async def release(self) -> None:
        if not self._is_released:
            self._is_released = True
            await self._ownership.release(self)

    def _check(self) -> None:
        if self._is_released:
            raise LocalProtocolError(f"Session {self.session_id} is closed")


class Ownership:
    """Takes, keeps and releases sessions.

    A session whose owner is dead is taken at once. A living owner is asked to release it; if it
    has not done so after `lease_s`, the session is taken nevertheless, and its writes fail.
    """

    def __init__(
        self, store: SessionStore, database: Database, appends: AppendQueue, lease_s: float
    ) -> None:
        self._store = store
        self._database = database
        self._appends = appends
        self._lease_s = lease_s
        self._server = Server(database, lease_s, self._renew, self._receive)
        self._owned: dict[str, tuple[PostgresSession, Callable[[], None]]] = {}
        self._taking: dict[str, asyncio.Event] = {}  # set when the session may be free
        self._answers: set[asyncio.Task[None]] = set()

    async def own(self, session_id: str, lost: Callable[[], None]) -> PostgresSession:
        """Become the owner of a session; raise KeyError, or `StoreUnavailable`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lease_s
        released = self._taking.setdefault(session_id, asyncio.Event())
        try:
            while True:
                released.clear()
                number = await self._server.number()
                position = await self._take(session_id, number, force=loop.time() >= until)
                if position is not None:
                    break
                try:
                    async with asyncio.timeout(min(_ASK_S, max(0.0, until - loop.time()))):
                        await released.wait()
                except TimeoutError:
                    pass
        finally:
            self._taking.pop(session_id, None)
        owned = PostgresSession(self, self._store, session_id, position)
        previous = self._owned.get(session_id)
        self._owned[session_id] = owned, lost
        if previous is not None:  # by another agent of this process, which has not released it
            previous[1]()
        return owned

    async def is_owned(self, session_id: str) -> bool:
        """Return whether this server or another one that lives owns a session."""
        if session_id in self._owned:
            return True

        async def work(connection: Any) -> bool:
            row = await connection.fetchrow(_OWNER, session_id)
            if row is None or row[0] is None or self._server.has_number(row[0]):
                return False  # unknown, free, or not released because the database failed
            return await self._server.is_alive(connection, row[0])

        return await self._database.run(work)

    async def _take(self, session_id: str, number: int, *, force: bool) -> Position | None:
        """Become the owner of a session; None if its owner has been asked to release it."""

        async def work(connection: Any) -> Position | None:
            taken = await connection.fetchrow(_TAKE_FREE, session_id, number)
            if taken is not None:
                return Position(*taken)
            row = await connection.fetchrow(_OWNER, session_id)
            if row is None:
                raise KeyError(session_id)
            owner, seen = row
            if owner is None:
                return None  # it has just been released
            is_forgotten = owner == number and session_id not in self._owned  # a release failed
            may_take = force or is_forgotten
            if not may_take and await self._server.is_alive(connection, owner):
                await self._server.notify(connection, f"want {owner} {session_id}")
                return None
            taken = await connection.fetchrow(_TAKE, session_id, number, seen)
            if taken is None:
                return None  # by another server
            position = Position(*taken)
            if not is_forgotten:
                log.warning("! session %s is taken over from server %d", session_id, owner)
                await self._server.notify(connection, f"taken {position.fence} {session_id}")
            return position

        return await self._database.run(work)

    # For `PostgresSession`.

    async def append(self, owned: PostgresSession, entries: Sequence[bytes]) -> None:
        """Append entries; raise `SessionTaken`."""
        try:
            await self._appends.append(owned.session_id, owned.position, entries)
        except KeyError:
            self._lose(owned)
            raise SessionTaken(
                "This session was deleted", data={"sessionId": owned.session_id}
            ) from None
        except SessionTaken:
            self._lose(owned)
            raise

    async def update(self, owned: PostgresSession, session: StoredSession) -> None:
        """Replace the metadata of a session; raise `SessionTaken`."""

        async def work(connection: Any) -> Any:
            return await connection.fetchval(_UPDATE, *_row_of(session), owned.position.fence)

        if await self._database.run(work) is None:
            self._lose(owned)
            raise SessionTaken(data={"sessionId": owned.session_id})

    async def release(self, owned: PostgresSession) -> None:
        """Let other servers take a session; a failure is logged, because they can anyway."""
        if self._owned.get(owned.session_id, (None,))[0] is owned:
            del self._owned[owned.session_id]

        async def work(connection: Any) -> None:
            await connection.execute(_RELEASE, owned.session_id, owned.position.fence)
            if owned.is_wanted:
                await self._server.notify(connection, f"free {owned.session_id}")

        try:
            await self._database.run_once(work)
        except AccordError as exc:
            log.warning("! session %s is not released: %s", owned.session_id, exc)

    def _lose(self, owned: PostgresSession) -> None:
        found = self._owned.get(owned.session_id)
        if found is not None and found[0] is owned:
            found[1]()

    # For the server.

    async def _renew(self, connection: Any, number: int, previous: int | None) -> None:
        """Keep the sessions when the number has changed; find those that other servers own."""
        ids = list(self._owned)
        fences = [owned.position.fence for owned, _ in self._owned.values()]
        if previous is not None:
            await connection.execute(_KEEP, number, ids, fences)
        if not ids:
            return
        for session_id, fence in await connection.fetch(_LOST, ids, fences):
            found = self._owned.get(session_id)
            if found is not None and found[0].position.fence == fence:
                found[1]()

    def _receive(self, message: str) -> None:
        kind, _, rest = message.partition(" ")
        if kind == "free":
            if (released := self._taking.get(rest)) is not None:
                released.set()
            return
        number, _, session_id = rest.partition(" ")
        found = self._owned.get(session_id)
        if kind == "taken":
            if found is not None and found[0].position.fence < int(number):
                found[1]()
        elif kind == "want" and self._server.has_number(int(number)):
            if found is not None:
                found[0].is_wanted = True
                found[1]()
            elif session_id not in self._taking:
                # It is owned, but not open: a release has failed.
                answer = asyncio.create_task(self._release_forgotten(session_id, int(number)))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)

    async def _release_forgotten(self, session_id: str, number: int) -> None:
        async def work(connection: Any) -> None:
            if session_id in self._owned or session_id in self._taking:
                return
            await connection.execute(_RELEASE_FORGOTTEN, session_id, number)
            await self._server.notify(connection, f"free {session_id}")

        try:
            await self._database.run_once(work)
        except AccordError as exc:
            log.warning("! session %s is not released: %s", session_id, exc)

    async def aclose(self) -> None:
        """Stop being a server: the sessions that are still open have a dead owner."""
        self._owned.clear()
        if self._answers:
            await asyncio.wait(self._answers)
        await self._server.aclose()


# The store of sessions in PostgreSQL.

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
                *_row_of(session),
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
        *_row_of(session),
        count,
        append,
    )
    if found is not None:
        return True
    query = "SELECT last_append FROM accord_sessions WHERE id = $1"
    if await connection.fetchval(query, session.id) != append:
        raise ValueError(f"session {session.id} already exists")
    return False
