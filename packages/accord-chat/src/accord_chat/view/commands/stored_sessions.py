"""The sessions that the agent has stored, to open one of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from accord.client.agent_adapter import SessionInfo
from accord.errors import AccordError
from accord_chat.live_session import LiveSession
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_terminal.toolkit.text import one_line

LIST_S = 30.0  # for the agent to list its sessions
OLDEST = datetime.min.replace(tzinfo=UTC)  # of sessions without a time


def _list_sessions(screen: ChatScreen) -> None:
    screen.spawn(_choose_session(screen, screen.session))


async def _choose_session(screen: ChatScreen, session: LiveSession) -> None:
    try:
        agent = await session.link.agent()
        if not agent.supports("list_sessions"):
            screen.notify("The agent cannot list its sessions.", severity="warning")
            return
        async with asyncio.timeout(LIST_S):
            listed = [info async for info in agent.list_sessions(session.cwd)]
    except (AccordError, OSError, TimeoutError) as error:
        text = one_line(str(error)) or "The agent did not respond in time"
        screen.notify(text, severity="error", markup=False)
        return

    def chosen(session_id: str | None) -> None:
        if session_id is not None:
            _open(screen, session_id)

    opened = {one.session_id: one for one in screen.chat.sessions}
    listed = [info for info in listed if info.id not in opened or opened[info.id].has_prompts]
    choices = session_choices(listed, {one: session.title for one, session in opened.items()})
    if choices:
        screen.program.push_screen(PickScreen[str]("Sessions of this folder", choices), chosen)
    else:
        screen.notify("The agent has no sessions in this folder.")


def session_choices(listed: list[SessionInfo], opened: dict[str | None, str]) -> list[Choice[str]]:
    """Return stored sessions, the latest first; those that are open are marked."""
    timed = [(_local_time(info.updated_at), info) for info in listed]
    timed.sort(key=lambda one: one[0] or OLDEST, reverse=True)
    return [
        Choice(
            title or "Without a title",
            info.id,
            " · ".join(filter(None, [time and f"{time:%Y-%m-%d %H:%M}", "" if title else info.id])),
            info.id in opened,
        )
        for time, info in timed
        for title in (info.title or opened.get(info.id),)
    ]


def _local_time(text: str | None) -> datetime | None:
    """Return the time that an agent states, None if it cannot be read."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _open(screen: ChatScreen, session_id: str) -> None:
    for session in screen.chat.sessions:
        if session.session_id == session_id:
            screen.show_session(session)
            return
    before = screen.session
    screen.show_session(screen.chat.open_session(before.agent_name, session_id=session_id))
    if not (before.has_prompts or before.queue or before.draft or before.attachments):
        screen.close_session(before)


STORED_SESSIONS = Command(
    "sessions", "f3", "F3", "Open an earlier session of the agent", _list_sessions
)
