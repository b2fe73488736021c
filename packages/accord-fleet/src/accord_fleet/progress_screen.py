"""Progress at a terminal: bars that are drawn again a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from accord.text.excerpt import one_line
from accord_fleet.plan import Plan
from accord_fleet.progress import (
    AgentTally,
    Tally,
    clock_time,
    end_text,
    outcomes_text,
    speed_text,
    spent_text,
    stage_text,
)
from accord_fleet.types import Result, WorkItem

if TYPE_CHECKING:
    from accord_fleet.run import RunStage


_OTHER_LINES = 12  # all that is not a bar of an agent


class ScreenProgress:
    """Draws the progress; `clock` returns seconds."""

    def __init__(
        self, run: str, console: Console, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run = run
        self._console = console
        self._tally = Tally(clock)
        self._stage: RunStage = "running"
        self._live: Live | None = None

    def begin(self, plan: Plan, done: int) -> None:
        """Start to draw."""
        self._tally.begin(plan.total, done, [agent.name for agent in plan.agents])
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # logs on stderr are shown above the bars
        )
        self._live.start()

    def starting(self, item: WorkItem) -> None:
        """Count a running attempt."""
        self._tally.start(item.agent)

    def result(self, result: Result) -> None:
        """Count a result."""
        self._tally.add(result)

    def waiting(self, what: str, why: str | None) -> None:
        """Show what waits."""
        self._tally.wait(what, why)

    def stage(self, stage: RunStage) -> None:
        """Show what a Ctrl-C did; at the end, leave a summary instead of the bars."""
        self._stage = stage
        if self._live is None:
            return
        if stage != "ended":
            self._live.refresh()
            return
        self._live.stop()
        self._live = None
        for line in end_text(self._tally, self._run):
            self._console.print(Text(line))
        for text in _failures(self._tally, 5):
            self._console.print(text, no_wrap=True, overflow="ellipsis")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw everything that fits."""
        tally = self._tally
        height = options.height or console.height
        head = f"{tally.done:,} of {tally.total:,} results, {tally.running:,} running"
        yield _ends(head, clock_time(tally.elapsed_s))
        most = max(1, height - _OTHER_LINES)
        yield _bars(tally, most, options.max_width)
        yield _line(speed_text(tally))
        if outcomes := outcomes_text(tally):
            yield _line(outcomes)
        if spent := spent_text(tally):
            yield _line(spent)
        yield from _failures(tally, 3)
        for what, why in list(tally.waiting.items())[:3]:
            yield _line(f"{one_line(what, 40)}: {one_line(why, 200)}", "yellow")
        if text := stage_text(self._stage, tally.running):
            yield Text(text, "bold yellow")


def _bars(tally: Tally, most: int, width: int) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 4))
    grid.add_column(ratio=1, min_width=8)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    agents = list(tally.agents.items())
    if len(agents) > most or tally.before:
        # Results from before are not known by agent.
        agents = [("all agents", _all(tally))]
    for name, agent in agents:
        marks: list[str] = []
        if agent.passed:
            marks.append(f"{agent.passed:,} passed")
        if agent.failed:
            marks.append(f"{agent.failed:,} failed")
        grid.add_row(
            Text(one_line(name, 60)),
            ProgressBar(total=max(agent.total, 1), completed=agent.done),
            Text(f"{agent.done:,}/{agent.total:,}"),
            Text(", ".join(marks)),
        )
    return grid


def _all(tally: Tally) -> AgentTally:
    agents = list(tally.agents.values())
    return AgentTally(
        total=tally.total,
        done=tally.done,
        passed=sum(agent.passed for agent in agents),
        failed=sum(agent.failed for agent in agents),
    )


def _failures(tally: Tally, most: int) -> list[Text]:
    kinds = sorted(tally.failures.items(), key=lambda item: -item[1].count)
    lines = [
        _line(
            f"{failure.count:,} {kind}" + (f": {failure.message}" if failure.message else ""), "red"
        )
        for kind, failure in kinds[:most]
    ]
    if len(kinds) > most:
        others = sum(failure.count for _, failure in kinds[most:])
        lines.append(_line(f"{others:,} other failures", "red"))
    return lines


def _ends(left: str, right: str) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(Text(left, "bold"), Text(right))
    return grid


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")
