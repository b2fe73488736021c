"""The subagents as a tree, to see what one has done."""

from __future__ import annotations

from collections.abc import Iterator

from accord.client.session import SessionView
from accord_chat.model.timeline import Timeline
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.entry_lines import viewer_rows
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_chat.view.viewer_screen import ViewerScreen

__all__ = ("SUBAGENTS",)

MAX_LEVELS = 8


def _show_subagents(screen: ChatScreen) -> None:
    session = screen.session.session
    choices = [] if session is None else list(_choices(session, 0))
    if not choices:
        screen.notify("The agent has no subagents.")
        return

    def chosen(view: SessionView | None) -> None:
        if view is None:
            return
        timeline = Timeline(view.transcript)
        timeline.sync()
        rows = [row for entry in timeline.entries for row in viewer_rows(entry, view.cwd)]
        screen.program.push_screen(ViewerScreen("Subagent", rows))

    screen.program.push_screen(PickScreen[SessionView]("Subagents", choices), chosen)


def _choices(parent: SessionView, level: int) -> Iterator[Choice[SessionView]]:
    for child_id, child in parent.transcript.subagents.items():
        view = parent.subagent(child_id)
        state = "" if child.state is None else str(child.state.state)
        label = f"{'  ' * level}└ {child.title or child_id}"
        yield Choice(label, view, " · ".join(filter(None, [state, child.description])))
        if level < MAX_LEVELS:
            yield from _choices(view, level + 1)


SUBAGENTS = Command(
    "subagents", "alt+a", "Alt+A", "Show the subagents, and what one has done", _show_subagents
)
