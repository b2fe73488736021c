"""The subagents as a tree, to see what one does and to cancel it."""

from __future__ import annotations

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.subagent_screens import SubagentTree


def _show_subagents(screen: ChatScreen) -> None:
    if screen.session.transcript.subagents:
        screen.program.push_screen(SubagentTree(screen.session))
    else:
        screen.notify("The agent has no subagents.")


SUBAGENTS = Command(
    "subagents",
    "alt+a",
    "Alt+A",
    "Show the subagents: what each does, and cancel one",
    _show_subagents,
)
