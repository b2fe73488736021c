"""The line of tabs: the open sessions with their agents, as many as fit, and a button for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from accord_chat.live_session import LiveSession
from accord_chat.model.known_agents import short_name
from accord_terminal.toolkit.text import one_line

MAX_TITLE = 24
MAX_AGENT = 14
MORE = " + "  # opens the list of agents

Target: TypeAlias = int | Literal["more"]


class TabLine(Struct, frozen=True):
    """The line, and what is where."""

    text: Text
    ranges: tuple[tuple[range, Target], ...]

    def at(self, column: int) -> Target | None:
        """Return the number of the session in a column, or "more"."""
        return next((target for columns, target in self.ranges if column in columns), None)


def tab_line(sessions: Sequence[LiveSession], active: int, width: int) -> TabLine:
    """Return the tabs around the active one; what is left out is marked at the ends."""
    labels = _labels(sessions, width)
    first, end = _window([cell_len(label) for label in labels], active, width - len(MORE) - 6)
    text = Text(no_wrap=True, overflow="crop", end="")
    ranges: list[tuple[range, Target]] = []

    def add(label: str, style: str, target: Target) -> None:
        ranges.append((range(text.cell_len, text.cell_len + cell_len(label)), target))
        text.append(label, style)

    if first > 0:
        add(f"‹{_mark_of(sessions[:first])} ", "bold", first - 1)
    for number in range(first, end):
        is_active = number == active
        style = "bold reverse" if is_active and len(sessions) > 1 else "bold" if is_active else ""
        add(labels[number], style or _style(sessions[number]), number)
        text.append(" ")
    if end < len(sessions):
        add(f"{_mark_of(sessions[end:])}› ", "bold", end)
    text.append(" " * max(width - text.cell_len - len(MORE), 0))
    add(MORE, "bold", "more")
    return TabLine(text, tuple(ranges))


def _labels(sessions: Sequence[LiveSession], width: int) -> list[str]:
    if len(sessions) == 1:
        (session,) = sessions
        agent, title = short_name(session.agent_name), session.title or "new session"
        label = f" {one_line(agent, 30)} · {title} "
        room = max(width - len(MORE) - 1, 4)
        return [label if cell_len(label) <= room else f"{set_cell_size(label, room - 2)}… "]
    shows_agents = len({session.agent_name for session in sessions}) > 1
    return [_label(session, number, shows_agents) for number, session in enumerate(sessions, 1)]


def _label(session: LiveSession, number: int, shows_agent: bool) -> str:
    title = one_line(session.title or "new session", MAX_TITLE)
    agent = f"{one_line(short_name(session.agent_name), MAX_AGENT)}: " if shows_agent else ""
    return f" {number}{_mark(session)} {agent}{title} "


def _mark(session: LiveSession) -> str:
    if session.questions:
        return "?"
    if session.state == "failed":
        return "✗"
    return "●" if session.needs_attention else "◐" if session.is_busy else ""


def _mark_of(sessions: Sequence[LiveSession]) -> str:
    """Return the mark of sessions that are not shown."""
    marks = {_mark(session) for session in sessions}
    return next((mark for mark in "?✗●" if mark in marks), "")


def _style(session: LiveSession) -> str:
    return "yellow" if session.questions else "red" if session.state == "failed" else "dim"


def _window(sizes: Sequence[int], active: int, room: int) -> tuple[int, int]:
    """Return which tabs fit, the active one among them: the first, and the one after the last."""
    first, end = active, active + 1
    used = sizes[active] + 1
    while True:
        if end < len(sizes) and used + sizes[end] + 1 <= room:
            used += sizes[end] + 1
            end += 1
        elif first > 0 and used + sizes[first - 1] + 1 <= room:
            first -= 1
            used += sizes[first] + 1
        else:
            return first, end
