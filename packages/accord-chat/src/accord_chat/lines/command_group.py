"""What all commands of the chat in lines use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from accord_chat.chat import Chat
from accord_chat.lines.dialogs import ReadLine
from accord_chat.lines.printer import Printer
from accord_chat.live_session import LiveSession


class Host(Protocol):
    """The program around the commands."""

    def send(self, text: str) -> None:
        """Send a prompt."""
        ...

    def quit(self) -> None:
        """End the program."""
        ...

    def show_session(self) -> None:
        """Say which session is current, and read what is new in it."""
        ...

    def cancel(self) -> None:
        """Cancel the turn."""
        ...

    def show_question(self) -> bool:
        """Read the open question again; return whether there is one."""
        ...

    async def write_prompt(self, text: str) -> str | None:
        """Let the user edit a prompt in an editor; None if that is not possible."""
        ...


class CommandGroup:
    """Commands about one thing; each is a method with its name in the table."""

    def __init__(self, chat: Chat, host: Host, printer: Printer, read: ReadLine) -> None:
        self.chat = chat
        self.host = host
        self.printer = printer
        self.read = read

    @property
    def session(self) -> LiveSession:
        """The current session."""
        return self.chat.current

    def say(self, text: str) -> None:
        """Print a line."""
        self.printer.say(text)

    def list_rows(self, title: str, rows: Iterable[str]) -> None:
        """Print a title, and rows below it."""
        self.say(title)
        self.printer.below(rows)

    def chosen(self, argument: str, count: int) -> int | None:
        """Return the position for a number, from 0; None and a message for other text."""
        if argument.isascii() and argument.isdigit() and 1 <= int(argument) <= count:
            return int(argument) - 1
        self.say(f"Error: type a number from 1 to {count}." if count else "Error: there is none.")
        return None
