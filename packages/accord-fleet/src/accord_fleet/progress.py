"""Shows a run while it is in progress, as lines for logs or as JSON for programs.

A `Tally` counts and estimates; the texts are the same as at a terminal (`progress_screen`).
"""

from __future__ import annotations

import shlex
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from accord.text.excerpt import one_line
from accord_fleet.plan import Plan
from accord_fleet.report.summary import (
    OUTCOMES,
    Outcome,
    failure_kind,
    failure_message,
    money,
    outcome_of,
)
from accord_fleet.types import Result, WorkItem

if TYPE_CHECKING:
    from accord_fleet.run import RunStage


_WINDOW_S = 60.0
_SAMPLES = 60
_LEAST_RESULTS = 5  # before a rate says something


class AgentTally(msgspec.Struct):
    """The results of one agent."""

    total: int
    done: int = 0
    passed: int = 0
    failed: int = 0
    """Failed, at a limit or lost; not those that a grader did not pass."""
    running: int = 0


class FailureTally(msgspec.Struct):
    """The failures of one kind."""

    count: int = 0
    message: str = ""
    """Of the latest one."""


class Tally:
    """Counts the results of a run; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._samples: deque[tuple[float, int]] = deque()
        self.total: int = 0
        self.before: int = 0
        """Results from before the run; they do not count for the rate."""
        self.new: int = 0
        self.running: int = 0
        self.agents: dict[str, AgentTally] = {}
        self.outcomes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.failures: dict[str, FailureTally] = {}
        self.tokens: int = 0
        self.costs: dict[str, float] = {}
        self.waiting: dict[str, str] = {}
        """Why something waits, by what waits: an agent or a provider."""

    @property
    def done(self) -> int:
        """Results that exist."""
        return self.before + self.new

    @property
    def left(self) -> int:
        """Results that are missing."""
        return max(0, self.total - self.done)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._begun

    @property
    def rate(self) -> float | None:
        """Results per second in the last minute; None if too few are known."""
        if self.new < _LEAST_RESULTS:
            return None
        now = self._clock()
        # The first sample is the latest one before the window, or the beginning of the run.
        start, count = self._begun, 0
        for at, done in self._samples:
            if now - at < _WINDOW_S:
                break
            start, count = at, done
        seconds = now - start
        return (self.new - count) / seconds if seconds > 0 else None

    @property
    def left_s(self) -> float | None:
        """Estimated seconds to the end; None if they are not known."""
        rate = self.rate
        return self.left / rate if rate else None

    def begin(self, total: int, done: int, agents: list[str]) -> None:
        """A run begins with `done` of `total` results."""
        self._begun = self._clock()
        self.total, self.before = total, done
        each = total // len(agents) if agents else 0
        self.agents = {agent: AgentTally(total=each) for agent in agents}

    def start(self, agent: str) -> None:
        """An attempt starts."""
        self.running += 1
        self._agent(agent).running += 1

    def add(self, result: Result) -> tuple[Outcome, str | None]:
        """Count a result; return its outcome and the kind of its failure."""
        outcome = outcome_of(result)
        kind = failure_kind(result, outcome)
        agent = self._agent(result.agent)
        self.new += 1
        self.running = max(0, self.running - 1)
        agent.running = max(0, agent.running - 1)
        agent.done += 1
        agent.passed += outcome == "passed"
        agent.failed += result.status != "finished"
        self.outcomes[outcome] += 1
        self.statuses[result.status] += 1
        if kind is not None and kind != "not passed":
            failure = self.failures.setdefault(kind, FailureTally())
            failure.count += 1
            failure.message = failure_message(result, outcome)
        usage = result.usage
        self.tokens += usage.total_tokens or 0
        if usage.cost:
            currency = usage.currency or ""
            self.costs[currency] = self.costs.get(currency, 0.0) + usage.cost
        self._sample()
        return outcome, kind

    def wait(self, what: str, why: str | None) -> None:
        """An agent or a provider waits for a reason, or no longer."""
        if why is None:
            self.waiting.pop(what, None)
        else:
            self.waiting[what] = why

    def _agent(self, name: str) -> AgentTally:
        found = self.agents.get(name)
        if found is None:
            found = self.agents[name] = AgentTally(total=0)
        return found

    def _sample(self) -> None:
        """Remember the count now, about once a second."""
        now = self._clock()
        if not self._samples or now - self._samples[-1][0] >= _WINDOW_S / _SAMPLES:
            self._samples.append((now, self.new))
            while len(self._samples) > 2 and now - self._samples[1][0] > _WINDOW_S:
                self._samples.popleft()


# Texts.


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


# Plain lines, for logs and pipes.

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


# JSON, one event per line, for programs.


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
