"""Where the coder keeps its sessions: a file of the user's, opened when the first is needed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accord import SessionStore

if TYPE_CHECKING:
    from accord.agent.store import Archived, Page, Stored

# SQLite takes milliseconds to import, and an editor that starts an agent waits for it.

__all__ = ("UserStore",)

log = logging.getLogger("accord.coder")


class UserStore(SessionStore):
    """Keeps sessions in `sessions.sqlite` in a directory, which nobody else can look into.

    If that cannot be, they are kept as long as the process runs, and the log says so: a full
    disk is no reason not to work.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: SessionStore | None = None

    async def _store(self) -> SessionStore:
        if self._opened is None:
            import sqlite3

            from accord import MemoryStore, SqliteStore
            from accord.coder.places import private_dir

            path = self._folder / "sessions.sqlite"
            try:
                private_dir(self._folder)
                self._opened = SqliteStore(path)
                await self._opened.list(limit=1)
            except (OSError, ValueError, sqlite3.Error) as exc:
                log.error("! sessions are not kept: %s: %s", path, exc)
                self._opened = MemoryStore()
        return self._opened

    async def create(self, session: Stored, entries: Sequence[bytes] = ()) -> None:
        await (await self._store()).create(session, entries)

    async def get(self, session_id: str) -> Stored | None:
        return await (await self._store()).get(session_id)

    async def put(self, session: Stored) -> None:
        await (await self._store()).put(session)

    async def append(self, session_id: str, entry: bytes) -> None:
        await (await self._store()).append(session_id, entry)

    async def read(self, session_id: str) -> list[bytes]:
        return await (await self._store()).read(session_id)

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        store = await self._store()
        return await store.list(cwd=cwd, archived=archived, cursor=cursor, limit=limit)

    async def delete(self, session_id: str) -> None:
        await (await self._store()).delete(session_id)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
