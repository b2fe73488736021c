"""The lists that need nothing of the screen below them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from textual.app import App

from accord.cli.ask.safe_text import one_line, printable
from accord.cli.ask.screen.rows import Row
from accord.client.session import SessionView
from accord_chat.live_session import LiveSession
from accord_chat.model.export import FORMATS, Format, exported, write_export
from accord_chat.model.permission_memory import PermissionMemory, RememberedRule
from accord_chat.model.prompt_queue import PromptQueue, QueuedPrompt
from accord_chat.model.timeline import Timeline
from accord_chat.view.entry_lines import viewer_rows
from accord_chat.view.keys import COMMANDS
from accord_chat.view.lists import option_choices, subagent_choices, traffic_rows
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_chat.view.viewer_screen import ViewerScreen

__all__ = (
    "show_commands",
    "show_export",
    "show_memory",
    "show_options",
    "show_queue",
    "show_subagents",
    "show_traffic",
)


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


def show_export(app: App[int], session: LiveSession) -> None:
    """List the formats, and write the conversation in the chosen one."""

    def export(kind: Format | None) -> None:
        if kind is None:
            return
        title, cwd = session.title or "Chat", str(session.cwd)
        try:
            text = exported(kind, title, cwd, session.timeline.entries, session.transcript)
            path = write_export(session.cwd, kind, text, datetime.now())
        except OSError as error:
            app.notify(f"Not written: {error.strerror}", severity="error", markup=False)
        else:
            app.notify(f"Written: {path.name}", markup=False)

    choices: list[Choice[Format]] = [Choice(label, kind) for kind, label in FORMATS.items()]
    app.push_screen(PickScreen[Format]("Write the conversation to a file", choices), export)


def show_queue(app: App[int], queue: PromptQueue, edit: Callable[[QueuedPrompt], None]) -> None:
    """List the queued prompts; `edit` gets the one that the user takes back."""
    if not queue:
        app.notify("No prompt is queued.")
        return
    choices = [Choice(one_line(prompt.text, 200), prompt.number) for prompt in queue]

    def taken(number: int | None) -> None:
        prompt = None if number is None else queue.withdraw(number)
        if prompt is not None:
            edit(prompt)
        elif number is not None:
            app.notify("It was already sent.")

    hint = "Enter takes a prompt back, to edit or drop it · Esc leaves"
    app.push_screen(PickScreen[int]("Queued prompts", choices, hint), taken)


def show_subagents(app: App[int], session: LiveSession) -> None:
    """List the subagents as a tree, and show what the chosen one has done."""
    choices = list(subagent_choices(session))
    if not choices:
        app.notify("The agent has no subagents.")
        return

    def chosen(view: SessionView | None) -> None:
        if view is None:
            return
        timeline = Timeline(view.transcript)
        timeline.sync()
        rows = [row for entry in timeline.entries for row in viewer_rows(entry, view.cwd)]
        app.push_screen(ViewerScreen("Subagent", rows))

    app.push_screen(PickScreen[SessionView]("Subagents", choices), chosen)


def show_traffic(app: App[int], session: LiveSession) -> None:
    """Show the last messages of the connection, and what the agent wrote to stderr."""
    rows = list(traffic_rows(tuple(session.link.frames)))
    if session.link.output:
        rows.append(Row("stderr of the agent:", "bold"))
        rows += [Row(one_line(line, 2000), "dim", "  ") for line in session.link.output]
    app.push_screen(ViewerScreen("Messages of the protocol, the last ones", rows))
