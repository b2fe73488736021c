"""Progress as JSON, one event per line, for programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TextIO

import msgspec

from accord_fleet.plan import Plan
from accord_fleet.progress.tally import Tally
from accord_fleet.report.failures import failure_message
from accord_fleet.run_observer import RunStage
from accord_fleet.types.result import Result
from accord_fleet.types.task import WorkItem


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """An event; `time` is in seconds since 1970."""

    time: float


class Begin(_Event, frozen=True, kw_only=True, tag="begin"):
    """The first event of a run."""

    version: int = 1
    """The format; it changes if a field changes its meaning."""
    run: str
    total: int
    done: int
    """Results that existed before."""
    agents: list[str]


class Ran(_Event, frozen=True, kw_only=True, tag="result"):
    """A result was stored."""

    task: str
    agent: str
    attempt: int
    status: str
    outcome: str
    kind: str | None
    """The kind of its failure."""
    message: str
    wall_s: float
    tokens: int | None
    cost: float | None
    currency: str | None
    done: int
    """Results that exist now."""
    rate: float | None
    """Results per second in the last minute."""
    left_s: float | None
    """Estimated seconds to the end of the run."""


class Waiting(_Event, frozen=True, kw_only=True, tag="waiting"):
    """An agent or a provider waits; `why` is null when it no longer does."""

    what: str
    why: str | None


class Stage(_Event, frozen=True, kw_only=True, tag="stage"):
    """The user stopped taking tasks (`stopping`), or cancelled the turns (`cancelling`)."""

    stage: str


class End(_Event, frozen=True, kw_only=True, tag="end"):
    """The last event of a run."""

    total: int
    done: int
    statuses: dict[str, int]
    outcomes: dict[str, int]
    """Of the results of this run, without those from before."""
    failures: dict[str, int]
    tokens: int
    costs: dict[str, float]
    """By currency."""
    seconds: float


class JsonProgress:
    """Writes the events."""

    def __init__(
        self,
        run: str,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self._stream = stream
        self._now = now
        self._tally = Tally(clock)
        self._encoder = msgspec.json.Encoder()

    def begin(self, plan: Plan, done: int) -> None:
        """Write the first event."""
        agents = [agent.name for agent in plan.agents]
        self._tally.begin(plan.total, done, agents)
        self._write(
            Begin(time=self._now(), run=self._run, total=plan.total, done=done, agents=agents)
        )

    def starting(self, item: WorkItem) -> None:
        """Count a running attempt."""
        self._tally.start(item.agent)

    def result(self, result: Result) -> None:
        """Write the event of a result."""
        outcome, kind = self._tally.add(result)
        self._write(
            Ran(
                time=self._now(),
                task=result.task,
                agent=result.agent,
                attempt=result.attempt,
                status=result.status,
                outcome=outcome,
                kind=kind,
                message=failure_message(result, outcome),
                wall_s=result.times.wall_s,
                tokens=result.usage.total_tokens,
                cost=result.usage.cost,
                currency=result.usage.currency,
                done=self._tally.done,
                rate=self._tally.rate,
                left_s=self._tally.left_s,
            )
        )

    def waiting(self, what: str, why: str | None) -> None:
        """Write what waits."""
        self._tally.wait(what, why)
        self._write(Waiting(time=self._now(), what=what, why=why))

    def stage(self, stage: RunStage) -> None:
        """Write the event of a stage, or the last one."""
        tally = self._tally
        if stage in ("stopping", "cancelling"):
            self._write(Stage(time=self._now(), stage=stage))
        elif stage == "ended":
            failures = {kind: failure.count for kind, failure in tally.failures.items()}
            self._write(
                End(
                    time=self._now(),
                    total=tally.total,
                    done=tally.done,
                    statuses=dict(tally.statuses),
                    outcomes=dict(tally.outcomes),
                    failures=failures,
                    tokens=tally.tokens,
                    costs=tally.costs,
                    seconds=tally.elapsed_s,
                )
            )

    def _write(self, event: Any) -> None:
        self._stream.write(self._encoder.encode(event).decode() + "\n")
        self._stream.flush()
