"""Sessions in an SQLite file, which several processes may share."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.agent.store import Archived, Page, SessionStore, Stored, page_of, place_after

__all__ = ("SqliteStore",)

_LAYOUT = 1
_BUSY_S = 10.0  # for another process to finish its write
_TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    additional TEXT NOT NULL,
    title TEXT,
    title_is_users INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    archived INTEGER NOT NULL
);
CREATE INDEX sessions_by_time ON sessions (updated_at DESC, id DESC);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    entry BLOB NOT NULL
);
CREATE INDEX entries_by_session ON entries (session_id, number);
"""
_COLUMNS = "id, cwd, additional, title, title_is_users, updated_at, archived"


class SqliteStore(SessionStore):
    """Writes ahead (WAL): a write takes some 20 µs and outlives the process at once.

    Raises `ValueError` for a file that a newer Accord has made.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._opened: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    async def create(self, session: Stored, entries: Sequence[bytes] = ()) -> None:
        with self._lock, _transaction(self._db) as db:
            try:
                db.execute(
                    f"INSERT INTO sessions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    _row(session),
                )
            except sqlite3.IntegrityError:
                raise ValueError(f"there is a session {session.id} already") from None
            db.executemany(
                "INSERT INTO entries (session_id, entry) VALUES (?, ?)",
                [(session.id, entry) for entry in entries],
            )

    async def get(self, session_id: str) -> Stored | None:
        with self._lock:
            row = self._db.execute(
                f"SELECT {_COLUMNS} FROM sessions WHERE id = ?",  # our own names
                (session_id,),
            ).fetchone()
        return None if row is None else _stored(row)

    async def put(self, session: Stored) -> None:
        with self._lock, _transaction(self._db) as db:
            changed = db.execute(
                "UPDATE sessions SET (cwd, additional, title, title_is_users, updated_at, archived)"
                " = (?, ?, ?, ?, ?, ?) WHERE id = ?",
                (*_row(session)[1:], session.id),
            )
            if not changed.rowcount:
                raise KeyError(session.id)

    async def append(self, session_id: str, entry: bytes) -> None:
        with self._lock:
            try:
                self._db.execute(
                    "INSERT INTO entries (session_id, entry) VALUES (?, ?)", (session_id, entry)
                )
            except sqlite3.IntegrityError:
                raise KeyError(session_id) from None

    async def read(self, session_id: str) -> list[bytes]:
        with self._lock:
            rows = self._db.execute(
                "SELECT entry FROM entries WHERE session_id = ? ORDER BY number", (session_id,)
            ).fetchall()
        if not rows and await self.get(session_id) is None:
            raise KeyError(session_id)
        return [entry for (entry,) in rows]

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        conditions = ["1"]
        values: list[Any] = []
        if cwd is not None:
            conditions.append("cwd = ?")
            values.append(cwd)
        if archived != "include":
            conditions.append("archived = ?")
            values.append(archived == "only")
        if cursor is not None:
            conditions.append("(updated_at, id) < (?, ?)")
            values += place_after(cursor)
        query = (
            f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(conditions)}"
            " ORDER BY updated_at DESC, id DESC LIMIT ?"
        )
        with self._lock:
            rows = self._db.execute(query, (*values, limit + 1)).fetchall()
        return page_of([_stored(row) for row in rows], limit)

    async def delete(self, session_id: str) -> None:
        with self._lock:
            self._db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    async def aclose(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = _open(self._path)
        return self._opened


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[sqlite3.Connection, None, None]:
    """All of it, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Every statement is a transaction of its own, unless one is begun.
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        with _transaction(db):  # one process alone makes the tables
            (layout,) = db.execute("PRAGMA user_version").fetchone()
            if layout > _LAYOUT:
                raise ValueError(f"{path} was made by a newer Accord")
            if layout == 0:
                for statement in _TABLES.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_LAYOUT}")
    except BaseException:
        db.close()
        raise
    return db


def _row(session: Stored) -> tuple[Any, ...]:
    return (
        session.id,
        session.cwd,
        json.dumps(session.additional),
        # UTF-8 has no place for half a character.
        None if session.title is None else session.title.encode("utf-8", "replace").decode(),
        session.title_is_users,
        session.updated_at,
        session.archived,
    )


def _stored(row: Any) -> Stored:
    session_id, cwd, additional, title, title_is_users, updated_at, archived = row
    return Stored(
        id=session_id,
        cwd=cwd,
        additional=tuple(json.loads(additional)),
        title=title,
        title_is_users=bool(title_is_users),
        updated_at=updated_at,
        archived=bool(archived),
    )
