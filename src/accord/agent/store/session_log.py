"""Sessions that outlive their connection: what happens in them goes to a store first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from accord.agent.store.base import Page, SessionStore, Stored
from accord.agent.store.records import report_from, report_to
from accord.agent.store.replay import Fold
from accord.agent.updates import (
    CommandsReport,
    Ended,
    NoticeReport,
    OptionsReport,
    Report,
    Said,
    TitleReport,
)
from accord.errors import InvalidParams, ResourceNotFound
from accord.types.session import SessionOption

__all__ = ("Kept", "Loaded")

_AT_ONCE = 128  # reports of a replay before others get their turn


class Loaded(Struct):
    """A session as it was stored."""

    count: int  # entries
    options: tuple[SessionOption, ...]
    fold: Fold

    async def reports(self, *, running: bool) -> AsyncGenerator[Report, None]:
        """Iterate over what a replay shows; what a running turn has not ended stays open."""
        for number, report in enumerate(self.fold.all(running=running), 1):
            yield report
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)


class Kept:
    """A store, in the words of sessions."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def create(self, session_id: str, cwd: str, additional: Sequence[str]) -> None:
        """Keep a new session."""
        await self._store.create(
            Stored(id=session_id, cwd=cwd, additional=tuple(additional), updated_at=_now())
        )

    async def find(self, session_id: str) -> Stored:
        """Return a session; raise `ResourceNotFound`."""
        stored = await self._store.get(session_id)
        if stored is None:
            raise ResourceNotFound(data={"sessionId": session_id})
        return stored

    async def fork(self, session_id: str, copy: str, cwd: str, additional: Sequence[str]) -> Stored:
        """Keep a copy of a session and return it."""
        source = await self.find(session_id)
        stored = Stored(
            id=copy,
            cwd=cwd,
            additional=tuple(additional),
            title=source.title,
            title_is_users=source.title_is_users,
            updated_at=_now(),
        )
        await self._store.copy(session_id, stored)
        return stored

    def recorder(self, session_id: str) -> Callable[[Report], Awaitable[None]]:
        """Return what keeps the reports of a session."""
        store = self._store

        async def record(report: Report) -> None:
            if isinstance(report, CommandsReport | NoticeReport):
                return  # told anew each time, or once (R-SESS-18)
            await store.append(session_id, report_to(report))
            if isinstance(report, Ended | TitleReport) or (
                isinstance(report, Said) and report.role == "user"
            ):
                stored = await self.find(session_id)
                title = report.title if isinstance(report, TitleReport) else stored.title
                await store.put(replace(stored, title=title, updated_at=_now()))

        return record

    async def load(self, session_id: str) -> Loaded:
        """Return what happened in a session; others get their turn meanwhile."""
        count = 0
        options: tuple[SessionOption, ...] = ()
        fold = Fold()
        async with aclosing(self._store.read_pages(session_id)) as pages:
            async for page in pages:
                for entry in page:
                    count += 1
                    report = report_from(entry)
                    if isinstance(report, OptionsReport):
                        options = report.options
                    elif report is not None:
                        fold.add(report)
                await asyncio.sleep(0)
        return Loaded(count, options, fold)

    async def history(self, session_id: str) -> list[Report]:
        """Return what happened in a session, each thing once."""
        loaded = await self.load(session_id)
        return [report async for report in loaded.reports(running=False)]

    async def delete(self, session_id: str) -> None:
        """Forget a session."""
        await self._store.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Put a session away or take it out."""
        await self._store.put(replace(await self.find(session_id), archived=archived))

    async def set_title(self, session_id: str, title: str) -> None:
        """Keep the title that the user gave."""
        stored = await self.find(session_id)
        await self._store.put(replace(stored, title=title, title_is_users=True))

    async def list(self, *, cwd: str | None, archived: str | None, cursor: str | None) -> Page:
        """Return a page of sessions; raise `InvalidParams` for a filter or cursor unknown."""
        match archived or "exclude":
            case "exclude" | "include" | "only" as wanted:
                pass
            case _:
                raise InvalidParams("Unknown filter", data={"archived": archived})  # R-ARCH-09
        try:
            return await self._store.list(cwd=cwd, archived=wanted, cursor=cursor)
        except ValueError:
            raise InvalidParams("Invalid cursor") from None  # R-LIST-06


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
