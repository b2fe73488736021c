"""What is known about a run in progress: counts, rate, and when it will end."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from accord_fleet.report.failures import failure_kind, failure_message
from accord_fleet.report.summary import Outcome, outcome_of
from accord_fleet.types.result import Result

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
