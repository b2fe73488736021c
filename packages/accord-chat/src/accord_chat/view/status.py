"""The lines around the prompt: activity, settings and usage."""

from __future__ import annotations

import time

from rich.text import Text

from accord.client.transcript import Transcript
from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_terminal.toolkit.text import one_line
from accord_trace.summary import counted

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


def status_text(session: LiveSession, width: int) -> Text:
    """Return the settings of the session, and its usage at the right."""
    transcript = session.transcript
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
