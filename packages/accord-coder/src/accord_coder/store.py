"""The coder's session store: a file of the user, opened on first use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accord import SessionStore
from accord_coder.settings import private_dir

if TYPE_CHECKING:
    from accord.agent import Archived, SessionPage, StoredSession

# SQLite is imported lazily: it takes milliseconds, for which an editor would wait.


log = logging.getLogger("accord_coder")


class UserStore(SessionStore):
    """Stores sessions in `sessions.sqlite` in a directory; only the user can read it.

    If the file cannot be used, for example because the disk is full, the sessions stay in memory
    until the process ends, and the log contains a message.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: SessionStore | None = None
        self._opening = asyncio.Lock()

    async def _store(self) -> SessionStore:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    self._opened = await self._open()
        return self._opened

    async def _open(self) -> SessionStore:
        import sqlite3

        from accord import MemoryStore, SqliteStore
        from accord.agent import FallbackStore

        path = self._folder / "sessions.sqlite"
        try:
            if not self._folder.is_dir():  # an existing folder keeps its mode
                private_dir(self._folder)
            store = SqliteStore(path)
            await store.list(limit=1)
        except (OSError, ValueError, sqlite3.Error) as exc:
            log.error("! sessions are not stored: %s: %s", path, exc)
            return MemoryStore()
        return FallbackStore(store)

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        await (await self._store()).create(session, entries)

    async def get(self, session_id: str) -> StoredSession | None:
        return await (await self._store()).get(session_id)

    async def update(self, session: StoredSession) -> None:
        await (await self._store()).update(session)

    async def append(self, session_id: str, entry: bytes) -> None:
        await (await self._store()).append(session_id, entry)

    async def read(self, session_id: str) -> list[bytes]:
        return await (await self._store()).read(session_id)

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        async for page in (await self._store()).read_pages(session_id):
            yield page

    async def copy(self, session_id: str, session: StoredSession) -> None:
        await (await self._store()).copy(session_id, session)

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        store = await self._store()
        return await store.list(
            cwd=cwd, archived=archived, cursor=cursor, limit=limit, principal=principal
        )

    async def delete(self, session_id: str) -> None:
        await (await self._store()).delete(session_id)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
