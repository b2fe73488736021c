"""Shows how far a run is."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import msgspec

from accord.text.excerpt import one_line
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.status import RunStatus, run_status
from accord_fleet.progress.wording import clock_time
from accord_fleet.report.texts import money, number
from accord_terminal.toolkit.text import table_lines
from accord_trace.summary import counted

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
    """Yield the lines for a person; the table is as wide as the terminal at most."""
    yield f"{status.run}: {_state(status)}"
    share = f" ({100 * status.done // status.total} %)" if status.total else ""
    results = counted(status.total, "result")
    yield f"  {status.done:,} of {results}{share}, {_remaining(status)}"
    if status.per_second is not None:
        yield f"  {_speed(status, status.per_second)}"
    if status.cost or status.tokens:
        costs = ", ".join(money(cost, currency) for currency, cost in sorted(status.cost.items()))
        reported = f" (reported by {counted(status.with_cost, 'result')})" if costs else ""
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
        yield from _table(status, shutil.get_terminal_size().columns)


def _state(status: RunStatus) -> str:
    writer = status.writer
    if writer is not None:
        since = datetime.fromtimestamp(writer.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"running since {since} (process {writer.pid} on {writer.machine})"
    if status.state == "stopped":
        return f"stopped; continue it with `accord fleet resume {shlex.quote(status.run)}`"
    return "ended"


def _remaining(status: RunStatus) -> str:
    if not status.remaining:
        return "none remain"
    remain = "1 remains" if status.remaining == 1 else f"{status.remaining:,} remain"
    cancelled = status.statuses.get("cancelled", 0)
    return f"{remain} ({cancelled:,} cancelled)" if cancelled else remain


def _speed(status: RunStatus, rate: float) -> str:
    shown = f"{rate:,.1f} results/s" if rate >= 1 else f"{rate * 60:,.1f} results/min"
    if not status.left_s:
        return shown
    at = datetime.fromtimestamp(time.time() + status.left_s).astimezone()
    return f"{shown}, {clock_time(status.left_s)} left (until {at:%d %b %H:%M})"


def _table(status: RunStatus, width: int) -> Iterator[str]:
    head = ["agent", "done", "finished", "passed", "not passed", "cost"]
    rows = [
        [
            one_line(name, 40),
            *map(number, (agent.done, agent.finished, agent.passed, agent.not_passed)),
            ", ".join(money(cost, currency) for currency, cost in sorted(agent.cost.items())),
        ]
        for name, agent in status.agents.items()
    ]
    last = len(head) if status.cost else -1
    lines = table_lines(head[:last], [row[:last] for row in rows], width - 2)
    return (f"  {line}" for line in lines)
