"""What a report says, as values: the page, the terminal and `--json` show the same."""

from __future__ import annotations

from typing import Literal

import msgspec

from accord_fleet.report.statistics import Interval
from accord_fleet.types.result import Result

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
