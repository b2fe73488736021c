"""Runs the commands of the chat in lines by their names."""

from __future__ import annotations

from accord_chat.chat import Chat
from accord_chat.lines.command_group import Host
from accord_chat.lines.dialogs import ReadLine
from accord_chat.lines.printer import Printer
from accord_chat.lines.prompt_commands import PromptCommands
from accord_chat.lines.record_commands import RecordCommands
from accord_chat.lines.session_commands import SessionCommands

GROUPS = (PromptCommands, RecordCommands, SessionCommands)


class Commands:
    """All commands of the table."""

    def __init__(self, chat: Chat, host: Host, printer: Printer, read: ReadLine) -> None:
        self._groups = [group(chat, host, printer, read) for group in GROUPS]

    async def run(self, name: str, argument: str) -> None:
        """Run a command of the table."""
        for group in self._groups:
            method = getattr(group, name, None)
            if method is not None:
                result = method(argument)
                if result is not None:
                    await result
                return
