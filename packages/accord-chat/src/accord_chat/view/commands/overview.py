"""All commands: their keys, and a list to choose one from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_chat.view.viewer_screen import ViewerScreen
from accord_terminal.toolkit.text import Row

Keys = Sequence[tuple[str, str]]  # a key, and what it does


def overview(commands: Sequence[Command], typing: Keys, reading: Keys) -> tuple[Command, Command]:
    """Return the commands that show all commands."""

    def show_keys(screen: ChatScreen) -> None:
        rows = _rows([help_command, palette, *commands], typing, reading)
        screen.program.push_screen(ViewerScreen("Keys", rows))

    def choose_command(screen: ChatScreen) -> None:
        choices = [
            Choice(command.summary, command, command.shown_key)
            for command in (help_command, *commands)
        ]

        def chosen(command: Command | None) -> None:
            if command is not None:
                screen.call_later(command.run, screen)

        screen.program.push_screen(PickScreen[Command]("Commands", choices), chosen)

    help_command = Command("help", "f1", "F1", "Show the keys", show_keys)
    palette = Command("palette", "ctrl+p", "Ctrl+P", "Find a command by its name", choose_command)
    return help_command, palette


def _rows(commands: Sequence[Command], typing: Keys, reading: Keys) -> Iterator[Row]:
    everywhere = [(command.shown_key, command.summary) for command in commands]
    groups = (
        ("While you type", typing),
        ("Everywhere", everywhere),
        ("In the conversation (F6)", reading),
    )
    for title, keys in groups:
        yield Row(title, "bold")
        for key, summary in keys:
            yield Row(summary, "", f"  {key:<12}", lead_style="cyan")
        yield Row("")
