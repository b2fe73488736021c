"""Following the agent to the files that it works on."""

from __future__ import annotations

from accord_chat.view.chat_screen import FOLLOW_KEY, ChatScreen
from accord_chat.view.commands.base import Command


def _follow(screen: ChatScreen) -> None:
    screen.file_pane.switch(screen.session)


FOLLOW_AGENT = Command(
    "follow_agent",
    "alt+w",
    FOLLOW_KEY,
    "Follow the agent: show the file that it works on, at the line",
    _follow,
)
