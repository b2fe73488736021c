"""Progress as plain lines, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from accord.text.excerpt import one_line
from accord_fleet.plan import Plan
from accord_fleet.progress.tally import Tally
from accord_fleet.progress.wording import (
    end_text,
    outcomes_text,
    speed_text,
    spent_text,
    stage_text,
)
from accord_fleet.report.failures import failure_message
from accord_fleet.run_observer import RunStage
from accord_fleet.types.result import Result
from accord_fleet.types.task import WorkItem

_WAIT_AGAIN_S = 60.0  # from one line about what waits to the next
_MAX_FAILURES = 20  # lines of failures between two lines of progress


class LineProgress:
    """Prints a line for each failure, and one for all others every few seconds."""

    def __init__(
        self,
        run: str,
        stream: TextIO,
        *,
        every_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._stream = stream
        self._every_s = every_s
        self._clock = clock
        self._tally = Tally(clock)
        self._shown_at = clock()
        self._failures = 0
        self._waits: dict[str, float] = {}

    def begin(self, plan: Plan, done: int) -> None:
        """Print what is to be done."""
        tally = self._tally
        tally.begin(plan.total, done, [agent.name for agent in plan.agents])
        before = f", {done:,} exist already" if done else ""
        names = ", ".join(one_line(name, 40) for name in tally.agents)
        results = "1 result" if tally.total == 1 else f"{tally.total:,} results"
        self._print(f"{results} for {names}{before}")
        self._shown_at = self._clock()

    def starting(self, item: WorkItem) -> None:
        """Count a running attempt."""
        self._tally.start(item.agent)

    def result(self, result: Result) -> None:
        """Print a failure, or a line if it is time."""
        outcome, kind = self._tally.add(result)
        if kind is not None and kind not in ("not passed", "cancelled"):
            self._failures += 1
            if self._failures <= _MAX_FAILURES:
                message = failure_message(result, outcome)
                where = f"{one_line(result.task, 80)} by {one_line(result.agent, 40)}"
                attempt = f", attempt {result.attempt}" if result.attempt > 1 else ""
                self._print(f"{kind}: {where}{attempt}" + (f": {message}" if message else ""))
        if self._clock() - self._shown_at >= self._every_s:
            self._progress()

    def waiting(self, what: str, why: str | None) -> None:
        """Print what waits."""
        self._tally.wait(what, why)
        now = self._clock()
        if why is not None and now - self._waits.get(what, -_WAIT_AGAIN_S) >= _WAIT_AGAIN_S:
            self._waits[what] = now
            self._print(f"{one_line(what, 40)}: {one_line(why, 200)}")

    def stage(self, stage: RunStage) -> None:
        """Print what a Ctrl-C did, and how the run ended."""
        if stage == "ended":
            for line in end_text(self._tally, self._run):
                self._print(line)
        elif text := stage_text(stage, self._tally.running):
            self._print(text)

    def _progress(self) -> None:
        tally = self._tally
        if self._failures > _MAX_FAILURES:
            self._print(f"{self._failures - _MAX_FAILURES:,} more failures")
        self._failures = 0
        parts = [f"{tally.done:,} of {tally.total:,}", f"{tally.running:,} running"]
        parts += [outcomes_text(tally), speed_text(tally), spent_text(tally)]
        self._print("; ".join(part for part in parts if part))
        self._shown_at = self._clock()

    def _print(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
