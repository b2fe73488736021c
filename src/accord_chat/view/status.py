"""The lines around the conversation: tabs, activity, settings and usage."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from accord.cli.ask.safe_text import one_line
from accord.client.transcript import Transcript
from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession

__all__ = ("activity_text", "status_text", "tab_ranges", "tabs_text")

SPINNER = "◐◓◑◒"
MAX_TAB = 24


def tabs_text(sessions: Sequence[LiveSession], active: int, width: int) -> Text:
    """Return the line of tabs; with one session, its agent and title."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for number, session in enumerate(sessions):
        shown = _tab(session, number, single=len(sessions) == 1, width=width)
        style = "bold reverse" if number == active and len(sessions) > 1 else "bold"
        text.append(shown, style if number == active else "dim")
        text.append(" ")
    return text


def tab_ranges(sessions: Sequence[LiveSession], width: int) -> list[range]:
    """Return the columns of each tab, for the mouse."""
    ranges: list[range] = []
    at = 0
    for number, session in enumerate(sessions):
        size = cell_len(_tab(session, number, single=len(sessions) == 1, width=width))
        ranges.append(range(at, at + size))
        at += size + 1
    return ranges


def _tab(session: LiveSession, number: int, *, single: bool, width: int) -> str:
    title = session.title or "new session"
    if single:
        return f" {one_line(session.agent_name, 30)} · {title} "[: max(width - 1, 1)]
    mark = "?" if session.questions else "●" if session.needs_attention else ""
    mark = mark or ("◐" if session.is_busy else "")
    label = f"{one_line(session.agent_name, 10)}: {title}"
    return f" {number + 1}{mark} {one_line(label, MAX_TAB)} "


def activity_text(session: LiveSession, hidden_below: int, frame: int) -> Text:
    """Return what the agent is doing now, and what the user can do about it."""
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    link = session.link.state
    if link == "reconnecting":
        text.append("◌ connection lost, connecting again", "yellow")
    elif session.state == "starting":
        text.append(f"{SPINNER[frame % 4]} starting {one_line(session.agent_name, 30)}", "yellow")
    elif session.state == "failed":
        text.append("✗ the agent is not running · Ctrl+R starts it again", "red")
    elif session.state == "cancelling":
        text.append(f"{SPINNER[frame % 4]} cancelling …", "yellow")
    elif session.state == "running":
        seconds = time.monotonic() - session.turn_started_s
        text.append(f"{SPINNER[frame % 4]} working {seconds:.0f} s", "yellow")
        text.append(" · Esc cancels", "dim")
    if session.queue:
        text.append(" · " if text else "")
        text.append(f"{len(session.queue)} queued (Alt+Up takes back)", "cyan")
    if hidden_below:
        text.append(" · " if text else "")
        text.append(f"↓ {hidden_below} lines (Ctrl+End)", "dim")
    return text


def status_text(session: LiveSession, width: int) -> Text:
    """Return the settings of the session, and its usage at the right."""
    transcript = session.transcript
    left = Text(" · ".join(_settings(transcript)), no_wrap=True, overflow="ellipsis", end="")
    right = Text(_usage(transcript), no_wrap=True, end="")
    keys = "F1 help" if width >= 60 else "F1"
    right.append(f" · {keys}" if right else keys)
    room = width - right.cell_len - 1
    left.truncate(max(room, 0), overflow="ellipsis")
    left.pad_right(max(room - left.cell_len, 0) + 1)
    return left + right


def _settings(transcript: Transcript) -> list[str]:
    shown: list[str] = []
    for option in transcript.options:
        if isinstance(option, SelectOption):
            names = {choice.value: choice.name for choice in option.choices}
            shown.append(one_line(names.get(option.value, option.value), 24))
        elif option.value:
            shown.append(one_line(option.name, 24))
    if transcript.mode_option is None and transcript.mode:
        shown.insert(0, one_line(transcript.mode, 24))
    return shown


def _usage(transcript: Transcript) -> str:
    usage = transcript.usage
    if usage is None:
        return ""
    parts = [f"{_short(usage.used)}/{_short(usage.size)}"] if usage.size else [_short(usage.used)]
    if usage.size:
        parts.append(f"{100 * usage.used / usage.size:.0f}%")
    if usage.cost is not None:
        amount = f"{usage.cost.amount:.2f}"
        currency = one_line(usage.cost.currency, 5)
        parts.append(f"${amount}" if currency == "USD" else f"{amount} {currency}")
    return " ".join(parts)


def _short(count: int) -> str:
    if count >= 10_000:
        return f"{count / 1000:.0f}k"
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)
