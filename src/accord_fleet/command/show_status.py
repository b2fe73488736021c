"""Shows how far a run is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import msgspec

from accord.text.excerpt import one_line
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.status import RunStatus, run_status
from accord_fleet.progress.wording import clock_time
from accord_fleet.report.texts import money

__all__ = ("show_status", "status_lines")

_FOLLOW_S = 5.0
_REMAIN = 3


def show_status(run: str, *, as_json: bool, follow: bool) -> int:
    """Print the status, with `follow` until the run has ended; return the exit status."""
    dataset = Dataset.open(run)
    while True:
        status = run_status(dataset)
        if as_json:
            click.echo(msgspec.json.encode(status))
        else:
            for line in status_lines(status):
                click.echo(line)
        if not follow or status.state != "running":
            return _REMAIN if status.remaining else 0
        if not as_json:
            click.echo()
        time.sleep(_FOLLOW_S)


def status_lines(status: RunStatus) -> Iterator[str]:
    """Yield the lines for a person, at most 80 columns if names are short."""
    yield f"{status.run}: {_state(status)}"
    share = f" ({status.done / status.total:.0%})" if status.total else ""
    yield f"  {status.done:,} of {status.total:,} results{share}, {_remaining(status)}"
    if status.per_second is not None:
        yield f"  {_speed(status, status.per_second)}"
    if status.cost or status.tokens:
        costs = ", ".join(money(cost, currency) for currency, cost in sorted(status.cost.items()))
        reported = f" (reported by {status.with_cost:,} results)" if costs else ""
        tokens = f"{status.tokens:,} tokens" if status.tokens else ""
        yield f"  {', '.join(filter(None, [tokens, costs]))}{reported}"
    finished = status.statuses.get("finished", 0)
    if status.done:
        yield ""
        yield f"  {finished:>9,} finished"
    for failure in status.failures:
        reason = f": {failure.reason}" if failure.reason else ""
        yield f"  {failure.count:>9,} {failure.status}{reason}"
    if status.done:
        yield ""
        yield from _table(status)


def _state(status: RunStatus) -> str:
    writer = status.writer
    if writer is not None:
        since = datetime.fromtimestamp(writer.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"running since {since} (process {writer.pid} on {writer.machine})"
    if status.state == "stopped":
        return f"stopped; continue it with `accord fleet resume {status.run}`"
    return "ended"


def _remaining(status: RunStatus) -> str:
    cancelled = status.statuses.get("cancelled", 0)
    more = f", {cancelled:,} cancelled ones among them" if cancelled else ""
    return f"{status.remaining:,} remain{more}" if status.remaining else "none remain"


def _speed(status: RunStatus, rate: float) -> str:
    shown = f"{rate:,.1f} results/s" if rate >= 1 else f"{rate * 60:,.1f} results/min"
    if not status.left_s:
        return shown
    at = datetime.fromtimestamp(time.time() + status.left_s).astimezone()
    return f"{shown}, {clock_time(status.left_s)} left (until {at:%d %b %H:%M})"


def _table(status: RunStatus) -> Iterator[str]:
    names = {name: one_line(name, 30) for name in status.agents}
    width = max(5, *map(len, names.values()))
    yield f"  {'agent':<{width}} {'done':>9} {'finished':>9} {'passed':>9} {'not passed':>10}  cost"
    for name, agent in status.agents.items():
        costs = ", ".join(money(cost, currency) for currency, cost in sorted(agent.cost.items()))
        yield (
            f"  {names[name]:<{width}} {agent.done:>9,} {agent.finished:>9,} {agent.passed:>9,} "
            f"{agent.not_passed:>10,}  {costs}"
        ).rstrip()
