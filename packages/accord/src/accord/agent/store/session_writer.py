"""Writes a session to its store: each update before it is sent, and when a turn ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from accord.agent.store.base import OwnedSession, SessionStore, StoredSession
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


class SessionWriter:
    """Writes the updates of a session to its store."""

    def __init__(self, store: SessionStore, owned: OwnedSession) -> None:
        self._store = store
        self._owned = owned

    @property
    def is_batched(self) -> bool:
        """Whether writing many updates at once takes hardly longer than writing one."""
        return self._owned.is_batched

    async def write(self, updates: Sequence[Update]) -> None:
        """Append updates; a prompt, the end of a turn and a title also change the metadata."""
        # Commands are sent when a session is opened, notices only once (R-SESS-18).
        stored = [u for u in updates if not isinstance(u, CommandsUpdate | NoticeUpdate)]
        if not stored:
            return
        await self._owned.append([encode_update(update) for update in stored])
        for update in stored:
            match update:
                case TurnEnded() | MessageUpdate(role="user"):
                    await self._change()
                case TitleUpdate(title):
                    await self._change(title=title)
                case _:
                    pass

    async def release(self) -> None:
        """Stop writing."""
        await self._owned.release()

    async def _change(self, **fields: Any) -> None:
        session = await find_session(self._store, self._owned.session_id)
        if session.title_is_users:  # R-TITLE-05: another server may have stored it
            fields.pop("title", None)
        await self._owned.update(replace(session, updated_at=timestamp(), **fields))


async def find_session(store: SessionStore, session_id: str) -> StoredSession:
    """Return the metadata of a session; raise `ResourceNotFound`."""
    stored = await store.get(session_id)
    if stored is None:
        raise ResourceNotFound(data={"sessionId": session_id})
    return stored


def timestamp() -> str:
    """Return the time as it is stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
