"""The conversation as a file."""

from __future__ import annotations

from datetime import datetime

from accord_chat.model.export import FORMATS, Format, exported, write_export
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen


def _choose_format(screen: ChatScreen) -> None:
    session = screen.session

    def export(kind: Format | None) -> None:
        if kind is None:
            return
        title, cwd = session.title or "Chat", str(session.cwd)
        try:
            text = exported(kind, title, cwd, session.timeline.entries, session.transcript)
            path = write_export(session.cwd, kind, text, datetime.now())
        except OSError as error:
            screen.notify(f"Not written: {error.strerror}", severity="error", markup=False)
        else:
            screen.notify(f"Written: {path.name}", markup=False)

    choices: list[Choice[Format]] = [Choice(label, kind) for kind, label in FORMATS.items()]
    picker = PickScreen[Format]("Write the conversation to a file", choices)
    screen.program.push_screen(picker, export)


EXPORT = Command("export", "alt+e", "Alt+E", "Write the conversation to a file", _choose_format)
