"""The sessions in a store: creates, finds, loads, forks, archives, deletes and lists them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

from msgspec import Struct
from msgspec.structs import replace

from accord.agent.store.base import SessionPage, SessionStore, StoredSession
from accord.agent.store.encoding import decode_update
from accord.agent.store.replay import Collapser
from accord.agent.store.session_writer import SessionWriter, find_session, timestamp
from accord.agent.updates import OptionsUpdate, Update
from accord.errors import InvalidParams, ResourceNotFound
from accord.types.session import SessionOption

# Updates that are read, sent or freed before other tasks run. A turn of another session takes a
# dozen of such steps if both sides run in one process.
_UPDATES_PER_STEP = 64


class LoadedSession(Struct):
    """A session as it was stored."""

    count: int  # entries
    options: tuple[SessionOption, ...]
    collapser: Collapser

    async def updates(self, *, running: bool) -> AsyncGenerator[Update, None]:
        """Iterate once over the updates of a replay; if `running`, open entities stay open."""
        for number, update in enumerate(self.collapser.result(running=running), 1):
            yield update
            if number % _UPDATES_PER_STEP == 0:
                await asyncio.sleep(0)
        has_more = True
        while has_more:
            has_more = self.collapser.free(_UPDATES_PER_STEP)
            await asyncio.sleep(0)


class StoredSessions:
    """The operations of sessions on a store.

    With a principal, only its sessions exist here, and new ones belong to it.
    """

    def __init__(self, store: SessionStore, principal: str | None = None) -> None:
        self._store = store
        self._principal = principal

    async def create(self, session_id: str, cwd: str, additional: Sequence[str]) -> None:
        """Store a new session."""
        await self._store.create(
            StoredSession(
                id=session_id,
                cwd=cwd,
                additional_directories=tuple(additional),
                updated_at=timestamp(),
                principal=self._principal,
            )
        )

    async def find(self, session_id: str) -> StoredSession:
        """Return a session; raise `ResourceNotFound`."""
        stored = await find_session(self._store, session_id)
        if self._principal not in (None, stored.principal):
            raise ResourceNotFound(data={"sessionId": session_id})  # as for an unknown one
        return stored

    async def is_owned(self, session_id: str) -> bool:
        """Return whether a session is open, on this server or another one."""
        return await self._store.is_owned(session_id)

    async def fork(
        self, session_id: str, copy: str, cwd: str, additional: Sequence[str]
    ) -> StoredSession:
        """Store a copy of a session and return it."""
        source = await self.find(session_id)
        stored = StoredSession(
            id=copy,
            cwd=cwd,
            additional_directories=tuple(additional),
            title=source.title,
            title_is_users=source.title_is_users,
            updated_at=timestamp(),
            principal=source.principal,
        )
        await self._store.copy(session_id, stored)
        return stored

    async def writer(self, session_id: str, lost: Callable[[], None]) -> SessionWriter:
        """Return the writer of a session, the only one; raise `ResourceNotFound`.

        `lost` is called if another server opens the session.
        """
        try:
            owned = await self._store.own(session_id, lost)
        except KeyError:
            raise ResourceNotFound(data={"sessionId": session_id}) from None
        return SessionWriter(self._store, owned)

    async def load(self, session_id: str, *, replay: bool = True) -> LoadedSession:
        """Return a stored session; other tasks run while it is read.

        Its updates are returned only for a `replay`.
        """
        count = 0
        options: tuple[SessionOption, ...] = ()
        fold = Collapser()
        async with aclosing(self._store.read_pages(session_id)) as pages:
            async for page in pages:
                for entry in page:
                    count += 1
                    update = decode_update(entry)
                    if isinstance(update, OptionsUpdate):
                        options = update.options
                    elif update is not None and replay:
                        fold.add(update)
                    if count % _UPDATES_PER_STEP == 0:
                        await asyncio.sleep(0)
        return LoadedSession(count, options, fold)

    async def history(self, session_id: str) -> list[Update]:
        """Return the collapsed updates of a session."""
        loaded = await self.load(session_id)
        return [update async for update in loaded.updates(running=False)]

    async def delete(self, session_id: str) -> None:
        """Delete a session, after it is closed on other servers."""
        with suppress(ResourceNotFound):
            await self.writer(session_id, _ignore)
            await self._store.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Archive or unarchive a session; an archived one is closed on other servers."""
        writer = await self.writer(session_id, _ignore) if archived else None
        try:
            await self._store.update(replace(await self.find(session_id), archived=archived))
        finally:
            if writer is not None:
                await writer.release()

    async def set_title(self, session_id: str, title: str) -> None:
        """Store a title that the user has set."""
        stored = await self.find(session_id)
        await self._store.update(replace(stored, title=title, title_is_users=True))

    async def list(
        self, *, cwd: str | None, archived: str | None, cursor: str | None
    ) -> SessionPage:
        """Return a page of sessions; raise `InvalidParams` for an invalid filter or cursor."""
        match archived or "exclude":
            case "exclude" | "include" | "only" as wanted:
                pass
            case _:
                raise InvalidParams("Unknown filter", data={"archived": archived})  # R-ARCH-09
        try:
            if self._principal is None:
                return await self._store.list(cwd=cwd, archived=wanted, cursor=cursor)
            return await self._store.list(
                cwd=cwd, archived=wanted, cursor=cursor, principal=self._principal
            )
        except ValueError:
            raise InvalidParams("Invalid cursor") from None  # R-LIST-06


def _ignore() -> None:
    """Continue with a short operation although another server wants the session."""
