"""Writes a session to its store: each update before it is sent, and when a turn ends."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from accord.agent.store.base import SessionStore, StoredSession
from accord.agent.store.encoding import encode_update
from accord.agent.updates import (
    CommandsUpdate,
    MessageUpdate,
    NoticeUpdate,
    TitleUpdate,
    TurnEnded,
    Update,
)
from accord.errors import ResourceNotFound

__all__ = ("SessionWriter", "find_session", "timestamp")


class SessionWriter:
    """Writes the updates of one session to a store."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def write(self, update: Update) -> None:
        """Append an update; a prompt, the end of a turn and a title also change the metadata."""
        match update:
            case CommandsUpdate() | NoticeUpdate():
                pass  # sent when a session is opened, or only once (R-SESS-18)
            case TurnEnded() | MessageUpdate(role="user"):
                await self._append(update)
                stored = await find_session(self._store, self._session_id)
                await self._store.update(replace(stored, updated_at=timestamp()))
            case TitleUpdate(title):
                await self._append(update)
                stored = await find_session(self._store, self._session_id)
                await self._store.update(replace(stored, title=title, updated_at=timestamp()))
            case _:
                await self._append(update)

    async def _append(self, update: Update) -> None:
        await self._store.append(self._session_id, encode_update(update))


async def find_session(store: SessionStore, session_id: str) -> StoredSession:
    """Return the metadata of a session; raise `ResourceNotFound`."""
    stored = await store.get(session_id)
    if stored is None:
        raise ResourceNotFound(data={"sessionId": session_id})
    return stored


def timestamp() -> str:
    """Return the time as it is stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
