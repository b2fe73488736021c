"""The lines of text around the conversation: tabs, plan, activity, settings and usage.

Each function returns what fits into a width.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from accord.client.events import Plan
from accord.client.transcript import Transcript
from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_chat.sources import short_name
from accord_terminal.toolkit.text import Row, one_line, printable
from accord_terminal.toolkit.tool_rows import plan_rows
from accord_trace.summary import counted

# What the agent does, the settings, and the usage.

SPINNER = "◐◓◑◒"
MAX_FAILURE = 44
MIN_FAILURE = 24  # beside more than one hint
MAX_NAME = 30
MIN_TEXT = 12  # cells
# What agents say beyond these numbers is shortened.
MAX_COUNT = 100_000_000
MAX_PERCENT = 999
MAX_AMOUNT = 100_000.0
OTHER_AGENT = " · Alt+N another agent"
QUEUED = len(" · 100 queued")
SLOW_S = 10.0  # for an agent to start


def activity_text(session: LiveSession, hidden_below: int, frame: int, width: int) -> Text:
    """Return what the agent is doing now, and what the user can do about it.

    The keys fit into the width: names and reasons are shortened for them.
    """
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    link = session.link.state
    if link == "reconnecting":
        text.append("◌ connection lost, connecting again", "yellow")
    elif session.state == "starting":
        waited_s, hint = time.monotonic() - session.state_since_s, ""
        if waited_s >= SLOW_S:
            hint = f" · {waited_s:.0f} s · Ctrl+R starts it again"
        name = one_line(session.agent_name, MAX_NAME)
        text.append(f"{SPINNER[frame % 4]} starting {name}", "yellow")
        _make_room(text, width - len(hint))
        text.append(hint, "dim")
    elif session.state == "logging_in":
        text.append(f"{SPINNER[frame % 4]} {_login_text(session)}", "yellow")
        text.append(" · Esc cancels" if session.login_name else "", "dim")
    elif session.state == "failed":
        hint = f" · Ctrl+R {'tries again' if link == 'connected' else 'starts it again'}"
        if not session.queue and width - len(hint) - len(OTHER_AGENT) >= MIN_FAILURE:
            hint += OTHER_AGENT
        text.append(f"✗ {one_line(session.failure, MAX_FAILURE)}", "red")
        _make_room(text, width - len(hint) - QUEUED * bool(session.queue))
        text.append(hint, "red")
    elif session.state == "cancelling":
        text.append(f"{SPINNER[frame % 4]} cancelling …", "yellow")
    elif session.state == "running":
        seconds = time.monotonic() - session.turn_started_s
        waiting = None if session.link.shared is None else session.link.shared.waiting
        doing = (
            "working" if waiting is None else f"waiting for {counted(waiting[1], 'prompt')} (F7),"
        )
        text.append(f"{SPINNER[frame % 4]} {doing} {seconds:.0f} s", "yellow")
        text.append(" · Esc cancels", "dim")
    _append_shared(text, session)
    if unsent := len(session.steering.unsent):
        text.append(" · " if text else "")
        text.append(f"{counted(unsent, 'message')} on the way", "cyan")
    if session.queue:
        text.append(" · " if text else "")
        text.append(f"{len(session.queue)} queued (Alt+Up takes back)", "cyan")
    if hidden_below:
        text.append(" · " if text else "")
        text.append(f"↓ {hidden_below} lines (Ctrl+End)", "dim")
    return text


def _make_room(text: Text, width: int) -> None:
    """Shorten a text, so that what follows is seen."""
    text.truncate(max(MIN_TEXT, width), overflow="ellipsis")


def _login_text(session: LiveSession) -> str:
    if session.login_name:
        return f"logging in with {one_line(session.login_name, 30)}: the agent waits for it"
    return "logging in" if session.questions else "waiting for the login in another tab"


def _append_shared(text: Text, session: LiveSession) -> None:
    """Add what others do in a session that stays open."""
    shared = session.link.shared
    if shared is None:
        return
    running = shared.running
    if running is not None and not shared.is_own(running):
        text.append(" · " if text else "")
        text.append(f"{one_line(running.by, 30)}: {one_line(running.text, 40)}", "yellow")
    waiting = sum(one.state == "queued" and not shared.is_own(one) for one in shared.queue)
    if waiting and shared.waiting is None:
        text.append(" · " if text else "")
        text.append(f"{counted(waiting, 'prompt')} of others (F7)", "cyan")
    if shared.others:
        names = ", ".join(one_line(name, 30) for name in shared.others[:3])
        more = "" if len(shared.others) <= 3 else " …"
        text.append(" · " if text else "")
        text.append(f"with {counted(len(shared.others), 'client')}: {names}{more}", "dim")


def sending_hint(session: LiveSession, enter: Literal["queue", "steer"]) -> Sequence[str]:
    """Return what keys do with a prompt that is written while the agent works, best first."""
    target, way = session.steered_turn, session.steer_way
    if target is None:
        return ()
    cut = () if session.questions else ("Alt+C cancels and sends",)
    if way == "none":
        return ("Enter queues: the agent cannot be steered", *cut)
    does = {"queue": "queues", "steer": "steers" if way == "native" else "sends a second prompt"}
    other, key = ("steer", "Alt+S") if enter == "queue" else ("queue", "Alt+Q")
    return (f"Enter {does[enter]} · {key} {does[other]}", *cut, "Alt+M swaps them")


def _hint_text(hint: Sequence[str], width: int) -> Text:
    """Return as many parts of a hint as fit."""
    text = Text(hint[0], "bold", no_wrap=True, overflow="ellipsis", end="")
    for part in hint[1:]:
        if text.cell_len + 3 + cell_len(part) <= width:
            text.append(f" · {part}", "not bold")
    return text


def status_text(session: LiveSession, width: int, hint: Sequence[str] = ()) -> Text:
    """Return the settings of the session, and its usage at the right; or a hint about keys."""
    transcript = session.transcript
    if hint:
        keys = " F1 help" if width >= 60 else " F1"
        room = width - len(keys)
        left = _hint_text(hint, room)
        left.truncate(room, overflow="ellipsis")
        left.pad_right(room - left.cell_len)
        return left + Text(keys, end="")
    left = Text(" · ".join(_settings(transcript)), no_wrap=True, overflow="ellipsis", end="")
    keys = "F1 help" if width >= 60 else "F1"
    right = Text(_usage(transcript), no_wrap=True, end="")
    if right:
        right.truncate(max(width - len(keys) - 3, 1), overflow="ellipsis")
        right.append(" · ")
    right.append(keys)
    room = width - right.cell_len - 1
    if room < 1:
        return right
    left.truncate(room, overflow="ellipsis")
    left.pad_right(room - left.cell_len + 1)
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
        parts.append(_percent(usage.used, usage.size))
    if usage.cost is not None:
        amount = _amount(usage.cost.amount)
        currency = one_line(usage.cost.currency, 5)
        parts.append(f"${amount}" if currency == "USD" else f"{amount} {currency}")
    return " ".join(parts)


def _short(count: int) -> str:
    if abs(count) >= MAX_COUNT:
        return f"{'-' if count < 0 else ''}>{MAX_COUNT // 1000}k"
    if count >= 10_000:
        return f"{count / 1000:.0f}k"
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)


def _percent(used: int, size: int) -> str:
    hundredths = 100 * used // size  # a float could not hold every number of an agent
    return f"{100 * used / size:.0f}%" if abs(hundredths) <= MAX_PERCENT else f">{MAX_PERCENT}%"


def _amount(amount: float) -> str:
    return f"{amount:.2f}" if abs(amount) < MAX_AMOUNT else f"{amount:.0e}"


# The tabs: the open sessions with their agents, as many as fit, and a button for more.

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


# The plan in any of its forms: steps, a text, or a file.


def whole_plan_rows(plan: Plan) -> Iterator[Row]:
    """Yield all of a plan."""
    if plan.markdown is None:
        yield from plan_rows(plan)
    else:
        yield from (Row(line) for line in printable(plan.markdown).split("\n"))


def short_plan_rows(plan: Plan, max_rows: int) -> Iterator[Row]:
    """Yield the steps around the running one, or the first lines of a text."""
    if plan.markdown is None:
        yield from plan_rows(plan, max_rows)
        return
    lines = [line for line in printable(plan.markdown).split("\n") if line.strip()]
    yield from (Row(line) for line in lines[:max_rows])
    if len(lines) > max_rows:
        yield Row(f"… {len(lines) - max_rows} more", "dim", "    ")
