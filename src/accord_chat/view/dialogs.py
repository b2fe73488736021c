"""The lists that need nothing of the screen below them."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App

from accord.cli.ask.safe_text import printable
from accord_chat.live_session import LiveSession
from accord_chat.model.permission_memory import PermissionMemory, RememberedRule
from accord_chat.view.keys import COMMANDS
from accord_chat.view.lists import option_choices
from accord_chat.view.pick_screen import Choice, PickScreen

__all__ = ("show_commands", "show_memory", "show_options")


def show_commands(app: App[int], run: Callable[[str], None]) -> None:
    """List all commands; `run` gets the name of the action."""
    choices = [
        Choice(command.summary, command.action, command.shown_key)
        for command in COMMANDS
        if command.action != "palette"
    ]

    def chosen(action: str | None) -> None:
        if action is not None:
            run(action)

    app.push_screen(PickScreen[str]("Commands", choices), chosen)


def show_options(
    app: App[int], session: LiveSession, choose: Callable[[tuple[str, str | bool]], None]
) -> None:
    """List the values of all options of a session; `choose` gets the option and the value."""
    choices = list(option_choices(session))
    if not choices:
        app.notify("The agent has no modes, models or options.")
        return

    def chosen(value: tuple[str, str | bool] | None) -> None:
        if value is not None:
            choose(value)

    picker = PickScreen[tuple[str, "str | bool"]]("Mode, model and options", choices)
    app.push_screen(picker, chosen)


def show_memory(app: App[int], memory: PermissionMemory) -> None:
    """List the remembered permissions, and forget the chosen one."""
    rules = memory.rules()
    if not rules:
        app.notify("Nothing is remembered.")
        return
    choices = [Choice(f"{one.decision} {one.summary}", one, one.agent) for one in rules]

    def forget(rule: RememberedRule | None) -> None:
        if rule is None:
            return
        try:
            memory.forget(rule)
        except OSError as error:
            app.notify(printable(str(error)), severity="error", markup=False)
        else:
            app.notify(f"Forgotten: {rule.summary}", markup=False)

    hint = "Enter forgets · Esc leaves"
    app.push_screen(PickScreen[RememberedRule]("Remembered permissions", choices, hint), forget)
