"""The texts of progress, the same at the terminal and as lines."""

from __future__ import annotations

import shlex
import time

from accord.text.excerpt import one_line
from accord_fleet.progress.tally import Tally
from accord_fleet.report.texts import OUTCOMES, money
from accord_fleet.run_observer import RunStage


def clock_time(seconds: float) -> str:
    """Return a time such as `45 s`, `12:03 min` or `3:20 h`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, second = divmod(whole, 60)
    if minutes < 100:
        return f"{minutes}:{second:02} min"
    hours, minute = divmod(minutes, 60)
    return f"{hours:,}:{minute:02} h"


def speed_text(tally: Tally) -> str:
    """Return the rate and the estimated end."""
    rate = tally.rate
    if rate is None:
        return "the rate is not known yet"
    shown = f"{rate:,.1f} results/s" if rate >= 1 else f"{rate * 60:,.1f} results/min"
    left = tally.left_s
    if left is None or not tally.left:
        return shown
    at = time.strftime(
        "%H:%M" if left < 20 * 3600 else "%d %b %H:%M", time.localtime(time.time() + left)
    )
    return f"{shown}, {clock_time(left)} left (until {at})"


def spent_text(tally: Tally) -> str:
    """Return tokens and costs so far; an empty text if none were reported."""
    parts = [f"{tally.tokens:,} tokens"] if tally.tokens else []
    parts += [money(total, currency) for currency, total in sorted(tally.costs.items())]
    return ", ".join(parts)


def outcomes_text(tally: Tally) -> str:
    """Return how many results have which outcome; nothing for outcomes without a result."""
    counts = [f"{tally.outcomes[one]:,} {OUTCOMES[one]}" for one in OUTCOMES if tally.outcomes[one]]
    return ", ".join(counts)


def stage_text(stage: RunStage, running: int) -> str:
    """Return what a Ctrl-C did, and what the next one does."""
    attempts = "1 attempt" if running == 1 else f"{running:,} attempts"
    if stage == "stopping":
        return (
            f"No more attempts are started; {attempts} will finish. "
            "Ctrl-C again cancels their turns."
        )
    if stage == "cancelling":
        return f"Cancelling the turns of {attempts}. Ctrl-C again ends at once."
    return ""


def end_text(tally: Tally, run: str) -> list[str]:
    """Return the lines at the end of a run."""
    parts = [f"{tally.done:,} of {tally.total:,} results", clock_time(tally.elapsed_s)]
    if outcomes := outcomes_text(tally):
        parts.append(outcomes)
    if spent := spent_text(tally):
        parts.append(spent)
    lines = ["; ".join(parts)]
    shown = one_line(shlex.quote(run))
    if tally.left:
        lines.append(f"Continue with: accord fleet resume {shown}")
    if tally.done:
        lines.append(f"Show results with: accord fleet report {shown}")
    return lines
