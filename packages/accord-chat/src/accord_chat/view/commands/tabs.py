"""The open sessions: another one, a new one, one less."""

from __future__ import annotations

from functools import partial

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command


def _open_new(screen: ChatScreen) -> None:
    screen.show_session(screen.chat.open_session(screen.session.agent_name))


def _step(screen: ChatScreen, step: int) -> None:
    chat = screen.chat
    screen.show_session(chat.sessions[(chat.active + step) % len(chat.sessions)])


def _close(screen: ChatScreen) -> None:
    """Close the session; the last one is followed by a new one."""
    chat, session = screen.chat, screen.session
    if len(chat.sessions) == 1:
        chat.open_session(session.agent_name)
    at = chat.sessions.index(session)
    screen.show_session(chat.sessions[at - 1 if at else 1])
    screen.close_session(session)


def _reconnect(screen: ChatScreen) -> None:
    screen.spawn(screen.chat.reconnect(screen.session))


TABS = (
    Command("new_session", "f8", "F8", "Open a new session, in a tab", _open_new),
    Command(
        "next_session",
        "ctrl+pagedown",
        "Ctrl+PgDn",
        "Show the next session",
        partial(_step, step=1),
    ),
    Command(
        "previous_session",
        "ctrl+pageup",
        "Ctrl+PgUp",
        "Show the previous session",
        partial(_step, step=-1),
    ),
    Command("close_session", "f12", "F12", "Close the session", _close),
    Command(
        "reconnect",
        "ctrl+r",
        "Ctrl+R",
        "After a failure, try again to start the agent",
        _reconnect,
    ),
)
