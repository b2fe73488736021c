"""What a report says, as values: the page, the terminal and `--json` show the same.

In reading order: statistics by closed formulas (no library is needed for these few), the values of
a report, kinds of failures, and how numbers and names are written.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, lgamma, log, sqrt
from typing import Literal

import msgspec

from accord.text.excerpt import one_line
from accord_fleet.storage import is_address
from accord_fleet.types import Result
from accord_trace.summary import duration

# Rates, their intervals, and tests. All intervals have a level of 95 %.

_Z = 1.959963984540054  # the normal distribution has 95 % within ± this


class Interval(msgspec.Struct, frozen=True):
    """An interval of confidence."""

    low: float
    high: float


def wilson(rate: float, count: float) -> Interval:
    """Return Wilson's score interval of a rate among `count` independent attempts.

    Raises `ValueError` if there is no attempt.
    """
    if count <= 0:
        raise ValueError(f"expected one attempt or more, got {count}")
    square = _Z * _Z / count
    middle = (rate + square / 2) / (1 + square)
    half = _Z * sqrt(rate * (1 - rate) / count + square / (4 * count)) / (1 + square)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def clustered_rate(pairs: Iterable[tuple[int, int]]) -> tuple[float, Interval]:
    """Return a rate and its interval; a pair is (passed, judged) of one task.

    Attempts at one task resemble each other, so they count as fewer: the interval is Wilson's with
    the effective number of attempts, from the variance between tasks (a ratio estimate with tasks
    as clusters). With one attempt for each task it is Wilson's. If that variance is 0 the tasks
    are what counts.

    Raises `ValueError` if there is no judged attempt.
    """
    tasks = passed = judged = passed_squares = products = judged_squares = 0
    for good, count in pairs:
        if not count:
            continue
        tasks += 1
        passed += good
        judged += count
        passed_squares += good * good
        products += good * count
        judged_squares += count * count
    if not judged:
        raise ValueError("expected one judged attempt or more, got 0")
    rate = passed / judged
    if tasks == judged:  # one attempt for each task
        return rate, wilson(rate, judged)
    squares = passed_squares - 2 * rate * products + rate * rate * judged_squares
    if tasks == 1 or squares <= 0 or not 0 < rate < 1:
        return rate, wilson(rate, tasks)
    variance = tasks / (tasks - 1) * squares / judged**2
    return rate, wilson(rate, min(rate * (1 - rate) / variance, judged))


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the exact two-sided p value of McNemar's test, which is a sign test.

    Tasks with the same outcome for both agents do not count.
    """
    count, least = wins + losses, min(wins, losses)
    if wins == losses:
        return 1.0
    total = 0.0
    for number in range(least, -1, -1):
        term = exp(
            lgamma(count + 1) - lgamma(number + 1) - lgamma(count - number + 1) - count * log(2)
        )
        total += term
        if term < total * 1e-17:
            break
    return min(1.0, 2 * total)


def paired_difference(count: int, total: float, squares: float) -> Interval:
    """Return the interval of the mean difference between two agents on the same `count` tasks.

    `total` and `squares` are the sums of the differences and of their squares. This is the
    interval of Agresti and Min: four half observations are added, one for each outcome of a pair
    of attempts, so that the interval holds for few tasks as well.

    Raises `ValueError` if there is no task.
    """
    if count <= 0:
        raise ValueError(f"expected one task or more, got {count}")
    added = count + 2
    mean = total / added
    variance = max(0.0, (squares + 1) / added - mean * mean)
    half = _Z * sqrt(variance / added)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted for the number of comparisons, by Holm's method."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    before = 0.0
    for place, index in enumerate(order):
        before = max(before, min(1.0, p_values[index] * (len(order) - place)))
        adjusted[index] = before
    return adjusted


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, with linear interpolation between neighbours."""
    at = share * (len(ordered) - 1)
    low = int(at)
    if low + 1 >= len(ordered):
        return ordered[low]
    return ordered[low] + (at - low) * (ordered[low + 1] - ordered[low])


Outcome = Literal["passed", "not_passed", "unfinished", "grader_error", "no_verdict", "excluded"]
"""What an attempt says about its agent.

- `passed`, `not_passed`: the grader's verdict.
- `unfinished`: the agent failed or reached a limit; not passed, if the task has a grader.
- `grader_error`: the grader itself failed, so nothing is known about the answer.
- `no_verdict`: the attempt finished, and no grader said whether it passed.
- `excluded`: the agent is not the cause: cancelled, or the machine or the workspace failed.
"""
_NOT_THE_AGENT = frozenset({"workspace", "sandbox", "engine"})


class SuccessRate(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the judged attempts passed."""

    passed: int
    judged: int
    tasks: int
    rate: float
    interval: Interval


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How values are distributed. `edges` has one number more than `counts`."""

    count: int
    total: float
    min: float
    quarter: float
    median: float
    three_quarters: float
    p95: float
    max: float
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts of one agent."""

    name: str
    attempts: int
    statuses: dict[str, int]
    outcomes: dict[str, int]
    success: SuccessRate | None
    """None without a judged attempt."""
    by_tag: dict[str, SuccessRate]
    mean_score: float | None
    wall_s: Distribution | None
    cost: Distribution | None
    """In the currency that the agent reports most; `currency` names it."""
    currency: str | None
    costs: dict[str, float]
    """Sums by currency; the empty name is a cost without currency."""
    tokens: Distribution | None
    input_tokens: int | None
    output_tokens: int | None
    tool_calls: Distribution | None
    grader_costs: dict[str, float] = {}
    """What agents that graded its attempts have cost, by currency; it is not in `costs`."""
    grader_tokens: int | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two agents on the tasks that were judged for both."""

    first: str
    second: str
    tasks: int
    wins: int
    """Tasks at which the first agent passed more of its attempts than the second."""
    losses: int
    ties: int
    difference: float
    """Mean over tasks of the first agent's rate minus the second's."""
    interval: Interval
    p: float
    """McNemar's exact test."""
    p_adjusted: float
    """For the number of comparisons, by Holm's method."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A message of failures; numbers in it are replaced by `#` where they differ."""

    message: str
    count: int


class FailureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of one kind."""

    kind: str
    count: int
    by_agent: dict[str, int]
    messages: tuple[Reason, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is worth reading."""

    task: str
    agent: str
    attempt: int
    status: str
    outcome: Outcome
    reason: str
    wall_s: float
    cost: float | None
    currency: str | None
    tokens: int | None
    tool_calls: int
    answer: str
    """Its beginning."""
    diff: str
    """Its beginning."""
    trace: str | None
    """The recording, as a path or an address."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the results of a run."""

    version: int = 1
    """The format; it changes if a field changes its meaning."""
    run: str
    results: int
    planned: int | None = None
    """How many results the run will have; None if this is not known."""
    tasks: int
    tags: int = 0
    """Number of tags; `by_tag` of agents has those with the most tasks."""
    most_attempts: int
    """The largest number of attempts at a task by one agent."""
    first_started: float | None
    last_ended: float | None
    agents: tuple[AgentSummary, ...]
    comparisons: tuple[Comparison, ...]
    failures: tuple[FailureSummary, ...]
    failed: tuple[Case, ...]
    slowest: tuple[Case, ...]
    dearest: tuple[Case, ...]
    disagreements: tuple[tuple[Case, ...], ...]
    """For each task at which the agents differ most, one attempt of each of a few agents."""


def outcome_of(result: Result) -> Outcome:
    """Return what an attempt says about its agent."""
    verdict, failure = result.verdict, result.failure
    if result.status in ("cancelled", "lost"):
        return "excluded"
    if result.status == "failed" and failure is not None and failure.where in _NOT_THE_AGENT:
        return "excluded"
    if verdict is not None and verdict.error is not None:
        return "grader_error"
    if verdict is not None and verdict.passed is not None:
        return "passed" if verdict.passed else "not_passed"
    return "no_verdict" if result.status == "finished" else "unfinished"


# Failures by kind, with the commonest messages of each.

REPEATED = "started again on another machine"
"""The kind of a failed start that was repeated: the attempt has a result of its own."""

_MAX_MESSAGES = 500  # of one kind; further ones are counted together
_SHOWN_MESSAGES = 5
_MAX_LENGTH = 200
_STARTS = frozenset({"start", "session", "sandbox"})  # these depend on the machine
_OTHER = "(other messages)"
_DIFFERS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+")


def failure_kind(result: Result, outcome: Outcome) -> str | None:
    """Return the kind of a failure, such as `limit: wall_s`; None for an attempt without one."""
    if result.status == "finished":
        return {"grader_error": "grader error", "not_passed": "not passed"}.get(outcome)
    failure = result.failure
    if result.status == "limit":
        return f"limit: {failure.limit}" if failure and failure.limit else "limit"
    if result.status == "failed":
        return f"failed: {failure.where}" if failure and failure.where else "failed"
    return result.status


def failure_message(result: Result, outcome: Outcome) -> str:
    """Return one line that says why an attempt failed, or an empty text.

    It is the first line of an error, and the last line of a grader's reason, which may be the end
    of what its command wrote.
    """
    verdict, failure = result.verdict, result.failure
    text = failure.message if failure is not None else ""
    if failure is not None and failure.where in _STARTS and result.repeated:
        text = f"{result.machine}: {text}"
    if not text and verdict is not None:
        text = verdict.error or ""
    line = next(iter(text.strip().splitlines()), "")
    if not line and verdict is not None:
        line = next(iter(verdict.reason.strip().splitlines()[::-1]), "")
    if not line and outcome == "not_passed":
        line = "the grader gave no reason"
    return one_line(line, _MAX_LENGTH)


def shown_message(text: str) -> str:
    """Return the first line of a message, shortened."""
    return one_line(next(iter(text.strip().splitlines()), ""), _MAX_LENGTH)


class FailureCount:
    """Counts failures; messages that differ only in numbers count as one."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def add(self, kind: str, agent: str, message: str) -> None:
        """Count one failure."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind()
        found.add(agent, message)

    def summaries(self) -> tuple[FailureSummary, ...]:
        """Return all kinds, the commonest first."""
        kinds = sorted(self._kinds.items(), key=lambda item: (-item[1].count, item[0]))
        return tuple(one.summary(kind) for kind, one in kinds)


class _Kind:
    def __init__(self) -> None:
        self.count = 0
        self._agents: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._spelt: dict[str, str] = {}  # as it was, if it is always the same

    def add(self, agent: str, message: str) -> None:
        self.count += 1
        self._agents[agent] += 1
        if not message:
            return
        key = _DIFFERS.sub("#", message)
        if key not in self._messages and len(self._messages) >= _MAX_MESSAGES:
            key = message = _OTHER
        self._messages[key] += 1
        if self._spelt.setdefault(key, message) != message:
            self._spelt[key] = key

    def summary(self, kind: str) -> FailureSummary:
        shown = self._messages.most_common(_SHOWN_MESSAGES)
        return FailureSummary(
            kind=kind,
            count=self.count,
            by_agent=dict(self._agents.most_common()),
            messages=tuple(Reason(message=self._spelt[key], count=count) for key, count in shown),
        )


# How numbers and names are written, on the page and at the terminal.

OUTCOMES: dict[Outcome, str] = {
    "passed": "passed",
    "not_passed": "not passed",
    "unfinished": "not finished",
    "grader_error": "grader error",
    "no_verdict": "no verdict",
    "excluded": "excluded",
}


def name(text: str) -> str:
    """Return a name of an agent, a task or a tag, which may be any text."""
    return one_line(text, 80)


def percent(share: float) -> str:
    """Return a share such as `62.5 %`."""
    return f"{share * 100:.1f} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{difference * 100:+.1f}"


def range_of(interval: Interval) -> str:
    """Return an interval such as `48.0 to 75.1 %`."""
    return f"{interval.low * 100:.1f} to {interval.high * 100:.1f} %"


def short_range(interval: Interval) -> str:
    """Return an interval without decimals, such as `48 to 75 %`."""
    return f"{interval.low * 100:.0f} to {interval.high * 100:.0f} %"


def probability(p: float) -> str:
    """Return a p value with two significant digits."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def money(amount: float, currency: str | None) -> str:
    """Return a cost with its currency, such as `0.0863 USD` and `1,323 USD`."""
    if abs(amount) >= 1e12:
        shown = f"{amount:.3g}"
    elif abs(amount) >= 1000:
        shown = f"{amount:,.0f}"
    else:
        shown = f"{amount:.2f}" if abs(amount) >= 1 else f"{amount:.3g}"
    return f"{shown} {one_line(currency, 12)}" if currency else shown


def number(value: float) -> str:
    """Return a count with separators."""
    return f"{value:,.0f}"


def short_number(value: float) -> str:
    """Return a count; millions with one decimal, such as `4.8 M`."""
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else number(value)


def success(rate: SuccessRate | None) -> str:
    """Return a rate with its counts, or `not judged`."""
    if rate is None:
        return "not judged"
    return f"{percent(rate.rate)} ({rate.passed:,} of {rate.judged:,})"


def clear_winner(comparison: Comparison) -> str:
    """Return which agent is better, or that the difference may be chance."""
    if comparison.p_adjusted >= 0.05:
        return "not clear"
    return name(comparison.first if comparison.wins > comparison.losses else comparison.second)


def unjudged(report: Report) -> str:
    """Return why there is no rate at all, or an empty text."""
    if not report.results:
        return "No attempt has ended yet."
    if any(agent.success is not None for agent in report.agents):
        return ""
    if any(agent.outcomes.get("grader_error") for agent in report.agents):
        return "All graders failed, so the report says nothing about success."
    return "No attempt was graded, so the report says nothing about success."


def case_title(case: Case) -> str:
    """Return what happened in one attempt."""
    parts = [case.status if case.outcome in ("unfinished", "excluded") else OUTCOMES[case.outcome]]
    parts.append(duration(case.wall_s))
    if case.cost is not None:
        parts.append(money(case.cost, case.currency))
    if case.tokens is not None:
        parts.append(f"{case.tokens:,} tokens")
    parts.append("1 tool call" if case.tool_calls == 1 else f"{case.tool_calls:,} tool calls")
    return ", ".join(parts)


def inspect_command(case: Case) -> str | None:
    """Return the command that shows the recording of an attempt."""
    if case.trace is None:
        return None
    return command_for_trace(case.trace, case.task, case.agent, case.attempt)


def command_for_trace(trace: str, task: str, agent: str, attempt: int) -> str:
    """Return the command that shows a recording of a run; one at an address is saved first."""
    if not is_address(trace):
        return f"accord inspect {shlex.quote(trace)}"
    run, _, place = trace.partition("/traces/")
    file = shlex.quote(place.rpartition("/")[2])
    words = [run, task, "--agent", agent]
    if attempt > 1:
        words += ["--attempt", str(attempt)]
    return f"accord fleet show {shlex.join(words)} --save {file} && accord inspect {file}"
