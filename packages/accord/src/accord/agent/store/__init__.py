"""Stored sessions: the interface of session stores, and a store in memory.

The other stores are modules of their own, imported when they are used: `sqlite`, `postgres` and
`fallback`, which holds sessions in memory while another store fails. `stored_sessions` is what the
sessions of a connection use: the stored form of updates, and create, load, fork and replay.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

__all__ = (
    "COLUMNS",
    "PAGE_ENTRIES",
    "Archived",
    "MemoryStore",
    "OwnedSession",
    "SessionPage",
    "SessionStore",
    "StoredSession",
    "make_page",
    "parse_cursor",
    "row_of",
    "stored_of",
)

PAGE_ENTRIES = 256  # that `read_pages` returns at a time

# Which sessions to list: whether archived ones are among them.
Archived: TypeAlias = Literal["exclude", "include", "only"]


class StoredSession(Struct, frozen=True, kw_only=True):
    """The metadata of a stored session; `updated_at` is RFC 3339 in UTC, of fixed length."""

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()  # in addition to `cwd`
    title: str | None = None
    title_is_users: bool = False
    updated_at: str = ""
    archived: bool = False
    principal: str | None = None  # who it belongs to, on a server with several principals


class SessionPage(Struct, frozen=True):
    """A page of a list of sessions; more follow if there is a cursor."""

    sessions: tuple[StoredSession, ...]
    next_cursor: str | None = None


class SessionStore(ABC):
    """Stores sessions: their metadata, and entries that are only appended.

    An entry is text that only Accord reads. An appended entry must survive a kill of the
    process. `accord.testing.StoreContract` tests the contract.
    """

    @abstractmethod
    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        """Store a new session; raise ValueError if its id exists."""

    @abstractmethod
    async def get(self, session_id: str) -> StoredSession | None:
        """Return a session; None if it does not exist."""

    @abstractmethod
    async def update(self, session: StoredSession) -> None:
        """Replace the metadata of a session; raise KeyError for an unknown session."""

    @abstractmethod
    async def append(self, session_id: str, entry: bytes) -> None:
        """Append an entry, durably when this returns; raise KeyError for an unknown session."""

    @abstractmethod
    async def read(self, session_id: str) -> list[bytes]:
        """Return all entries in order; raise KeyError for an unknown session."""

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        """Iterate over all entries in order, in pages; raise KeyError as `read` does.

        The default reads all at once. Override it to save memory with long sessions.
        """
        entries = await self.read(session_id)
        for first in range(0, len(entries), PAGE_ENTRIES):
            yield entries[first : first + PAGE_ENTRIES]

    async def copy(self, session_id: str, session: StoredSession) -> None:
        """Store a new session with the entries of another; raise as `create` and `read` do."""
        await self.create(session, await self.read(session_id))

    @abstractmethod
    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        """Return a page of sessions, newest change first; raise ValueError for a bad cursor.

        With a principal, only the sessions that belong to it.
        """

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """Delete a session and its entries; do nothing if it does not exist."""

    async def own(self, session_id: str, lost: Callable[[], None]) -> OwnedSession:
        """Become the writer of a session; raise KeyError for an unknown session.

        A store that several servers share overrides this, so that each session has one writer.
        It calls `lost`, possibly more than once, if another server opens the session: the caller
        must then close the session and call `release`.
        """
        return OwnedSession(self, session_id)

    async def is_owned(self, session_id: str) -> bool:
        """Return whether a process that lives is the writer of a session; False if unknown.

        A store that several servers share overrides this. It changes nothing.
        """
        return False

    async def aclose(self) -> None:  # noqa: B027  # most hold no resources
        """Release resources; the store can be used again."""


class OwnedSession:
    """A session of which this process is the writer, until `release`.

    This class writes by the methods of the store. Subclasses check that the session still has the
    same writer, and raise `SessionTaken` if not.
    """

    # Whether appending many entries at once takes hardly longer than appending one.
    is_batched: ClassVar[bool] = False

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self.session_id = session_id
        self._store = store

    async def append(self, entries: Sequence[bytes]) -> None:
        """Append entries, durably when this returns."""
        for entry in entries:
            await self._store.append(self.session_id, entry)

    def append_now(self, entries: Sequence[bytes]) -> bool:
        """Do the same without waiting; return False if that is not possible now."""
        return False

    async def update(self, session: StoredSession) -> None:
        """Replace the metadata of the session."""
        await self._store.update(session)

    async def release(self) -> None:
        """Stop being the writer."""


class _MemorySession(OwnedSession):
    is_batched: ClassVar[bool] = True

    def __init__(self, store: MemoryStore, session_id: str) -> None:
        super().__init__(store, session_id)
        self._memory = store

    def append_now(self, entries: Sequence[bytes]) -> bool:
        self._memory.append_all(self.session_id, entries)
        return True


class MemoryStore(SessionStore):
    """Stores sessions in memory, until the process ends."""

    def __init__(self) -> None:
        self._sessions: dict[str, StoredSession] = {}
        self._entries: dict[str, list[bytes]] = {}

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        if session.id in self._sessions:
            raise ValueError(f"session {session.id} already exists")
        self._sessions[session.id] = session
        self._entries[session.id] = list(entries)

    async def get(self, session_id: str) -> StoredSession | None:
        return self._sessions.get(session_id)

    async def own(self, session_id: str, lost: Callable[[], None]) -> OwnedSession:
        return _MemorySession(self, session_id)

    async def update(self, session: StoredSession) -> None:
        self._sessions[session.id]  # raises KeyError
        self._sessions[session.id] = replace(session)

    async def append(self, session_id: str, entry: bytes) -> None:
        self._entries[session_id].append(entry)

    def append_all(self, session_id: str, entries: Sequence[bytes]) -> None:
        """Append entries; raise KeyError for an unknown session."""
        self._entries[session_id] += entries

    async def read(self, session_id: str) -> list[bytes]:
        return list(self._entries[session_id])

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        # A copy of all would be new to the garbage collector, which would go through it.
        entries = self._entries[session_id]
        for first in range(0, len(entries), PAGE_ENTRIES):
            yield entries[first : first + PAGE_ENTRIES]

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        after = None if cursor is None else parse_cursor(cursor)
        found = sorted(
            (
                session
                for session in self._sessions.values()
                if cwd in (None, session.cwd)
                and principal in (None, session.principal)
                and (archived == "include" or session.archived == (archived == "only"))
                and (after is None or (session.updated_at, session.id) < after)
            ),
            key=lambda session: (session.updated_at, session.id),
            reverse=True,
        )
        return make_page(found[: limit + 1], limit)

    async def delete(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        self._entries.pop(session_id, None)


def make_page(found: Sequence[StoredSession], limit: int) -> SessionPage:
    """Return a page of up to `limit` sessions; `found` has one more if others follow."""
    sessions = tuple(found[:limit])
    if len(found) <= limit:
        return SessionPage(sessions)
    last = sessions[-1]
    return SessionPage(sessions, f"{last.updated_at} {last.id}")


def parse_cursor(cursor: str) -> tuple[str, str]:
    """Return the time and the id of the last session of the previous page."""
    updated_at, space, session_id = cursor.partition(" ")
    if not space or not session_id:
        raise ValueError("invalid cursor")
    return updated_at, session_id


# Sessions as rows of an SQL table.

COLUMNS = "id, cwd, additional, title, title_is_users, updated_at, archived, principal"


def row_of(session: StoredSession) -> tuple[Any, ...]:
    """Return the values of `COLUMNS`."""
    return (
        session.id,
        session.cwd,
        json.dumps(session.additional_directories),
        # UTF-8 cannot represent a lone surrogate.
        None if session.title is None else session.title.encode("utf-8", "replace").decode(),
        session.title_is_users,
        session.updated_at,
        session.archived,
        session.principal,
    )


def stored_of(row: Any) -> StoredSession:
    """Return the session of a row with `COLUMNS`."""
    session_id, cwd, additional, title, title_is_users, updated_at, archived, principal = row
    return StoredSession(
        id=session_id,
        cwd=cwd,
        additional_directories=tuple(json.loads(additional)),
        title=title,
        title_is_users=bool(title_is_users),
        updated_at=updated_at,
        archived=bool(archived),
        principal=principal,
    )
