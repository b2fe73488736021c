"""The messages of the protocol, and what the agent wrote to stderr."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.trace_screen import TraceScreen


def _show_traffic(screen: ChatScreen) -> None:
    screen.program.push_screen(TraceScreen(screen.chat.traffic, screen.session))


TRAFFIC = Command("traffic", "alt+t", "Alt+T", "Show the messages of the protocol", _show_traffic)
