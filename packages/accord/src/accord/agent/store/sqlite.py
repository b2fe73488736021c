"""Sessions in an SQLite file, which several processes may share."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

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

T = TypeVar("T")

_BUSY = object()

_LAYOUT = 1
_BUSY_S = 10.0  # to wait for another process to finish its write
_POLL_S = 0.005
_PAGE_BYTES = 1 << 20
_DELETE_ENTRIES = 2_000  # at a time, so that other sessions are written in between
_TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    additional TEXT NOT NULL,
    title TEXT,
    title_is_users INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    archived INTEGER NOT NULL,
    principal TEXT
);
CREATE INDEX sessions_by_time ON sessions (updated_at DESC, id DESC);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    entry BLOB NOT NULL
);
CREATE INDEX entries_by_session ON entries (session_id, number);
"""


class _SqliteSession(OwnedSession):
    """Appends entries in one transaction."""

    is_batched: ClassVar[bool] = True

    def __init__(self, store: SqliteStore, session_id: str) -> None:
        super().__init__(store, session_id)
        self._sqlite = store

    async def append(self, entries: Sequence[bytes]) -> None:
        await self._sqlite.append_all(self.session_id, entries)

    def append_now(self, entries: Sequence[bytes]) -> bool:
        return self._sqlite.append_now(self.session_id, entries)


class SqliteStore(SessionStore):
    """Stores sessions in an SQLite file with a write-ahead log.

    A write takes about 20 µs and survives a kill of the process. Operations that take longer, or
    that wait for another process, run in a thread and do not block the event loop. A file that
    is locked for 10 s raises `sqlite3.OperationalError`. By default (`mode`), only its owner can
    read the file.

    Raises `ValueError` for a file of a newer version of Accord.
    """

    def __init__(self, path: str | Path, *, mode: int = 0o600) -> None:
        self._path = Path(path)
        self._mode = mode
        self._opened: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._jobs: set[Future[Any]] = set()  # of the thread

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        def work(db: sqlite3.Connection) -> None:
            with _transaction(db):
                _insert(db, session)
                db.executemany(
                    "INSERT INTO entries (session_id, entry) VALUES (?, ?)",
                    [(session.id, entry) for entry in entries],
                )

        await (self._long(work) if entries else self._quick(work))

    async def get(self, session_id: str) -> StoredSession | None:
        def work(db: sqlite3.Connection) -> Any:
            query = f"SELECT {COLUMNS} FROM sessions WHERE id = ?"  # our own names
            return db.execute(query, (session_id,)).fetchone()

        row = await self._quick(work)
        return None if row is None else stored_of(row)

    async def update(self, session: StoredSession) -> None:
        def work(db: sqlite3.Connection) -> None:
            changed = db.execute(
                "UPDATE sessions SET (cwd, additional, title, title_is_users, updated_at, archived,"
                " principal) = (?, ?, ?, ?, ?, ?, ?) WHERE id = ?",
                (*row_of(session)[1:], session.id),
            )
            if not changed.rowcount:
                raise KeyError(session.id)

        await self._quick(work)

    async def append(self, session_id: str, entry: bytes) -> None:
        await self.append_all(session_id, (entry,))

    async def append_all(self, session_id: str, entries: Sequence[bytes]) -> None:
        """Append entries, all or none."""
        await self._quick(self._appending(session_id, entries))

    def append_now(self, session_id: str, entries: Sequence[bytes]) -> bool:
        """Do the same without waiting; return False if the file is not free now."""
        return self._at_once(self._appending(session_id, entries)) is not _BUSY

    def _appending(
        self, session_id: str, entries: Sequence[bytes]
    ) -> Callable[[sqlite3.Connection], None]:
        def work(db: sqlite3.Connection) -> None:
            insert = "INSERT INTO entries (session_id, entry) VALUES (?, ?)"
            try:
                if len(entries) == 1:  # one statement is a transaction
                    db.execute(insert, (session_id, entries[0]))
                else:
                    with _transaction(db):
                        db.executemany(insert, [(session_id, entry) for entry in entries])
            except sqlite3.IntegrityError:
                raise KeyError(session_id) from None

        return work

    async def own(self, session_id: str, lost: Callable[[], None]) -> OwnedSession:
        return _SqliteSession(self, session_id)

    async def read(self, session_id: str) -> list[bytes]:
        return [entry async for page in self.read_pages(session_id) for entry in page]

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        last = 0

        def end(db: sqlite3.Connection) -> int | None:
            """Return the number of the last entry; later ones are not read."""
            query = "SELECT max(number) FROM entries WHERE session_id = ?"
            return db.execute(query, (session_id,)).fetchone()[0]

        def work(db: sqlite3.Connection) -> list[bytes]:
            nonlocal last
            found: list[bytes] = []
            size = 0
            rows = db.execute(
                "SELECT number, entry FROM entries WHERE session_id = ? AND number > ?"
                " AND number <= ? ORDER BY number LIMIT ?",
                (session_id, last, until, PAGE_ENTRIES),
            )
            for number, entry in rows:
                found.append(entry)
                last = number
                size += len(entry)
                if size >= _PAGE_BYTES:
                    break
            rows.close()
            return found

        until = await self._quick(end)
        if until is None:
            if await self.get(session_id) is None:
                raise KeyError(session_id)
            return
        while page := await self._long(work):
            yield page

    async def copy(self, session_id: str, session: StoredSession) -> None:
        def work(db: sqlite3.Connection) -> None:
            with _transaction(db):
                if (
                    db.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone()
                    is None
                ):
                    raise KeyError(session_id)
                _insert(db, session)
                db.execute(
                    "INSERT INTO entries (session_id, entry) SELECT ?, entry FROM entries"
                    " WHERE session_id = ? ORDER BY number",
                    (session.id, session_id),
                )

        await self._long(work)

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        conditions = ["1"]
        values: list[Any] = []
        if cwd is not None:
            conditions.append("cwd = ?")
            values.append(cwd)
        if archived != "include":
            conditions.append("archived = ?")
            values.append(archived == "only")
        if principal is not None:
            conditions.append("principal = ?")
            values.append(principal)
        if cursor is not None:
            conditions.append("(updated_at, id) < (?, ?)")
            values += parse_cursor(cursor)
        query = (
            f"SELECT {COLUMNS} FROM sessions WHERE {' AND '.join(conditions)}"
            " ORDER BY updated_at DESC, id DESC LIMIT ?"
        )

        def work(db: sqlite3.Connection) -> list[Any]:
            return db.execute(query, (*values, limit + 1)).fetchall()

        return make_page([stored_of(row) for row in await self._long(work)], limit)

    async def delete(self, session_id: str) -> None:
        def some(db: sqlite3.Connection) -> int:
            return db.execute(
                "DELETE FROM entries WHERE number IN"
                " (SELECT number FROM entries WHERE session_id = ? LIMIT ?)",
                (session_id, _DELETE_ENTRIES),
            ).rowcount

        def rest(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

        while await self._long(some) == _DELETE_ENTRIES:
            pass
        await self._long(rest)

    async def aclose(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            self._close()
            return
        try:
            await asyncio.wrap_future(thread.submit(self._close))
        finally:
            thread.shutdown(wait=False)

    def _close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    # In the event loop or in the thread.

    async def _quick(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run fast work at once, or in the thread if it has to wait."""
        done = self._at_once(work)
        return await self._long(work) if done is _BUSY else cast("T", done)

    def _at_once(self, work: Callable[[sqlite3.Connection], T]) -> T | object:
        """Run fast work, or return `_BUSY` if it has to wait."""
        db = self._opened
        if db is not None and not self._jobs and self._lock.acquire(blocking=False):
            try:
                return work(db)
            except sqlite3.OperationalError as exc:
                if not _is_busy(exc):
                    raise
            finally:
                self._lock.release()
        return _BUSY

    async def _long(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work in the thread, after earlier work."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="accord store")
        job = self._thread.submit(self._do, work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.wrap_future(job)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        until = time.monotonic() + _BUSY_S
        while True:
            try:
                with self._lock:
                    if self._opened is None:
                        self._opened = _open(self._path, self._mode)
                    return work(self._opened)
            except sqlite3.OperationalError as exc:
                if not _is_busy(exc) or time.monotonic() > until:
                    raise
            time.sleep(_POLL_S)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether another process or connection holds the lock."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[None, None, None]:
    """Commit the block as a whole, or roll it back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has already ended the transaction
            db.execute("ROLLBACK")
        raise


def _open(path: Path, mode: int) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    _protect(path, mode)
    # Each statement is a transaction, unless one is begun. SQLite itself does not wait.
    db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        if _layout(db, path) == 0:
            with _transaction(db):  # only one process creates the tables
                if _layout(db, path) == 0:
                    for statement in _TABLES.split(";"):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {_LAYOUT}")
        _add_principal(db)
    except BaseException:
        db.close()
        raise
    return db


def _add_principal(db: sqlite3.Connection) -> None:
    """Add the column that files of earlier versions lack; those versions ignore it."""
    query = "SELECT 1 FROM pragma_table_info('sessions') WHERE name = 'principal'"
    if db.execute(query).fetchone() is None:
        with _transaction(db):
            if db.execute(query).fetchone() is None:
                db.execute("ALTER TABLE sessions ADD COLUMN principal TEXT")


def _layout(db: sqlite3.Connection, path: Path) -> int:
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if layout > _LAYOUT:
        raise ValueError(f"{path} was created by a newer version of Accord")
    return layout


def _protect(path: Path, mode: int) -> None:
    """Set the mode of the file while it is empty; SQLite uses the same for its log."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, mode))
    if os.name != "posix":
        return
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        # It belongs to another user or does not exist.
        with suppress(FileNotFoundError, PermissionError):
            if name.stat().st_mode & 0o777 != mode:
                name.chmod(mode)


def _insert(db: sqlite3.Connection, session: StoredSession) -> None:
    try:
        db.execute(
            f"INSERT INTO sessions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row_of(session)
        )
    except sqlite3.IntegrityError:
        raise ValueError(f"session {session.id} already exists") from None
