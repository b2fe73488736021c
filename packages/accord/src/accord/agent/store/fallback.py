"""A store that holds sessions in memory while another store fails, for example on a full disk."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from accord.agent.store import Archived, SessionPage, SessionStore, StoredSession

log: logging.Logger = logging.getLogger("accord.agent")

RETRY_S = 5.0  # until the store is used again
_CONTRACT = (KeyError, ValueError)  # what stores raise on purpose


class _Pending(Struct):
    """The changes of a session that the store has not accepted."""

    stored: StoredSession | None  # None: the metadata in the store is current
    is_new: bool  # the store does not know the session
    entries: list[bytes]
    is_being_retried: bool = False  # a task is writing it to the store


class FallbackStore(SessionStore):
    """Uses another store, and holds in memory what that store fails to accept.

    This is logged once. The changes are written when the store works again. Those that are not
    written when the process ends are lost. Other servers cannot see them: do not use this with a
    store that several servers share.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._pending: dict[str, _Pending] = {}
        self._retry_at = 0.0
        self._failed = False

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        if session.id in self._pending:
            raise ValueError(f"session {session.id} already exists")
        try:
            await self._store.create(session, entries)
        except _CONTRACT:
            raise
        except Exception as exc:  # noqa: BLE001  # of any store
            self._fail(exc)
            self._pending[session.id] = _Pending(session, True, list(entries))

    async def get(self, session_id: str) -> StoredSession | None:
        behind = self._pending.get(session_id)
        if behind is not None and behind.stored is not None:
            return behind.stored
        return await self._store.get(session_id)

    async def update(self, session: StoredSession) -> None:
        behind = self._pending.get(session.id)
        if behind is None:
            try:
                await self._store.update(session)
                return
            except _CONTRACT:
                raise
            except Exception as exc:  # noqa: BLE001  # of any store
                self._fail(exc)
                behind = self._pending[session.id] = _Pending(None, False, [])
        behind.stored = replace(session)
        await self._retry_if_due(session.id)

    async def append(self, session_id: str, entry: bytes) -> None:
        behind = self._pending.get(session_id)
        if behind is None:
            try:
                await self._store.append(session_id, entry)
                return
            except _CONTRACT:
                raise
            except Exception as exc:  # noqa: BLE001  # of any store
                self._fail(exc)
                behind = self._pending.setdefault(session_id, _Pending(None, False, []))
        behind.entries.append(entry)
        await self._retry_if_due(session_id)

    async def read(self, session_id: str) -> list[bytes]:
        return [entry async for page in self.read_pages(session_id) for entry in page]

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        behind = self._pending.get(session_id)
        missed = () if behind is None else tuple(behind.entries)
        if behind is None or not behind.is_new:
            async with aclosing(self._store.read_pages(session_id)) as pages:
                async for page in pages:
                    yield page
        if missed:
            yield missed

    async def copy(self, session_id: str, session: StoredSession) -> None:
        if session_id not in self._pending:
            try:
                await self._store.copy(session_id, session)
                return
            except _CONTRACT:
                raise
            except Exception as exc:  # noqa: BLE001  # of any store
                self._fail(exc)
        await self.create(session, await self.read(session_id))

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        try:
            page = await self._store.list(
                cwd=cwd, archived=archived, cursor=cursor, limit=limit, principal=principal
            )
        except _CONTRACT:
            raise
        except Exception as exc:  # noqa: BLE001  # of any store
            self._fail(exc)
            page = SessionPage(())
        if not self._pending:
            return page
        behind = {
            session_id: known.stored
            for session_id, known in self._pending.items()
            if known.stored is not None
        }
        # With current metadata; sessions that the store does not know come first.
        listed = [behind.get(session.id, session) for session in page.sessions]
        new = [
            session
            for session in behind.values()
            if cursor is None and self._pending[session.id].is_new and cwd in (None, session.cwd)
        ]
        new.sort(key=lambda session: (session.updated_at, session.id), reverse=True)
        found = [
            session
            for session in (*new, *listed)
            if (archived == "include" or session.archived == (archived == "only"))
            and principal in (None, session.principal)
        ]
        return SessionPage(tuple(found), page.next_cursor)

    async def delete(self, session_id: str) -> None:
        behind = self._pending.get(session_id)
        if behind is None or not behind.is_new:
            await self._store.delete(session_id)
        self._pending.pop(session_id, None)

    async def aclose(self) -> None:
        for session_id in tuple(self._pending):
            await self._retry(session_id)
        if self._pending:
            log.error("! %d sessions are lost: the store fails", len(self._pending))
        await self._store.aclose()

    # Changes that wait for the store.

    def _fail(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_S
        if not self._failed:
            self._failed = True
            log.error("! sessions are no longer stored: %s", error)

    async def _retry_if_due(self, session_id: str) -> None:
        """Write the waiting changes of a session, unless the store has just failed."""
        if time.monotonic() >= self._retry_at:
            await self._retry(session_id)

    async def _retry(self, session_id: str) -> None:
        behind = self._pending.get(session_id)
        if behind is None or behind.is_being_retried:
            return
        behind.is_being_retried = True
        store = self._store
        try:
            if behind.is_new:
                assert behind.stored is not None, "a new session is known"
                taken = len(behind.entries)
                await store.create(behind.stored, behind.entries[:taken])
                behind.is_new = False
                del behind.entries[:taken]
            while behind.entries:
                await store.append(session_id, behind.entries[0])
                del behind.entries[0]
            if (stored := behind.stored) is not None:
                await store.update(stored)
                if behind.stored is not stored or behind.entries:
                    return  # the next change writes the rest
        except _CONTRACT:
            log.exception("! session %s cannot be stored", session_id)
            self._pending.pop(session_id, None)  # another process has deleted it
            raise
        except Exception as exc:  # noqa: BLE001  # of any store
            self._fail(exc)
            return
        finally:
            behind.is_being_retried = False
        self._pending.pop(session_id, None)
        if not self._pending and self._failed:
            self._failed = False
            log.warning("! sessions are stored again")
