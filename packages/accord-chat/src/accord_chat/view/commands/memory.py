"""The remembered permissions, to forget one."""

from __future__ import annotations

from accord_chat.model.permission_memory import RememberedRule
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_terminal.toolkit.text import printable


def _show_memory(screen: ChatScreen) -> None:
    memory = screen.chat.memory
    rules = memory.rules()
    if memory.problem is not None:
        screen.notify(printable(memory.problem), severity="error", markup=False)
        return
    if not rules:
        screen.notify("Nothing is remembered.")
        return
    choices = [Choice(f"{one.decision} {one.summary}", one, one.agent) for one in rules]

    def forget(rule: RememberedRule | None) -> None:
        if rule is None:
            return
        try:
            memory.forget(rule)
        except OSError as error:
            screen.notify(printable(str(error)), severity="error", markup=False)
        else:
            screen.notify(f"Forgotten: {rule.summary}", markup=False)

    hint = "Enter forgets · Esc leaves"
    picker = PickScreen[RememberedRule]("Remembered permissions", choices, hint)
    screen.program.push_screen(picker, forget)


MEMORY = Command(
    "memory", "alt+p", "Alt+P", "Show the remembered permissions, and forget one", _show_memory
)
