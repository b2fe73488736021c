"""Makes a report of results, which are never held.

A first pass over all of them counts; it needs about 100 bytes for each result, and no long texts.
A second one reads the tasks of the few attempts that the report shows.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import combinations

from accord_fleet.report.cases import PickedCases, read_cases
from accord_fleet.report.distributions import distributions
from accord_fleet.report.failures import (
    REPEATED,
    FailureCount,
    failure_kind,
    failure_message,
    shown_message,
)
from accord_fleet.report.statistics import (
    clustered_rate,
    holm,
    mcnemar_exact,
    paired_difference,
)
from accord_fleet.report.summary import (
    AgentSummary,
    Case,
    Comparison,
    Distribution,
    Report,
    SuccessRate,
    outcome_of,
)
from accord_fleet.types.result import Result, Usage

_MAX_TAGS = 40
_MAX_COMPARED = 12  # agents: more make more pairs than a person reads
_DISAGREEMENTS = 10
_SHOWN_OF_DISAGREEMENT = 4  # agents at one task


def report_of(
    results: Callable[[], Iterable[Result]],
    run: str,
    *,
    whole: Callable[[Collection[str]], Iterable[Result]] | None = None,
    planned: int | None = None,
    has_grader: Callable[[str], bool] | None = None,
) -> Report:
    """Return the report of a run; `results` yields all results.

    `whole` yields those of some tasks, with their texts; without it, `results` is called again.
    `has_grader` returns whether a task has a grader: attempts that failed or reached a limit then
    count as not passed. Without it, a task has one if any of its results has a verdict.
    """
    counts = _Counts()
    for result in results():
        counts.add(result)
    return counts.report(whole or (lambda _: results()), run, planned, has_grader)


class _Agent:
    """What is counted for one agent; arrays by task have the number of the task as index."""

    def __init__(self) -> None:
        self.attempts = 0
        self.most_attempts = 0
        self.statuses: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.passed = array("I")
        self.judged = array("I")
        self.unfinished = array("I")
        self.scores = 0.0
        self.scored = 0
        self.wall = array("d")
        self.costs: dict[str, array[float]] = {}
        self.tokens = array("d")
        self.tool_calls = array("d")
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.grader_costs: dict[str, float] = {}
        self.grader_tokens: int | None = None

    def grow(self, tasks: int) -> None:
        for one in (self.passed, self.judged, self.unfinished):
            one.extend([0] * (tasks - len(one)))

    def add(self, result: Result, task: int) -> None:
        self.attempts += 1
        self.most_attempts = max(self.most_attempts, result.attempt)
        self.statuses[result.status] += 1
        outcome = outcome_of(result)
        self.outcomes[outcome] += 1
        if task >= len(self.passed):
            self.grow(max(task + 1, 2 * len(self.passed)))
        if outcome in ("passed", "not_passed"):
            self.judged[task] += 1
            self.passed[task] += outcome == "passed"
        elif outcome == "unfinished":
            self.unfinished[task] += 1
        verdict, usage = result.verdict, result.usage
        if verdict is not None and verdict.error is None and verdict.score is not None:
            self.scores += verdict.score
            self.scored += 1
        if result.status != "lost":
            self.wall.append(result.times.wall_s)
            self.tool_calls.append(result.tool_calls)
        if usage.cost is not None:
            self.costs.setdefault(usage.currency or "", array("d")).append(usage.cost)
        if usage.total_tokens is not None:
            self.tokens.append(usage.total_tokens)
        if usage.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + usage.input_tokens
        if usage.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + usage.output_tokens
        if verdict is not None:
            self.add_grader(verdict.usage)

    def add_grader(self, usage: Usage) -> None:
        if usage.cost is not None:
            currency = usage.currency or ""
            self.grader_costs[currency] = self.grader_costs.get(currency, 0.0) + usage.cost
        if usage.total_tokens is not None:
            self.grader_tokens = (self.grader_tokens or 0) + usage.total_tokens


class _Counts:
    """The first pass."""

    def __init__(self) -> None:
        self._agents: dict[str, _Agent] = {}
        self._tasks: dict[str, int] = {}
        self._has_verdict = bytearray()
        self._by_tag: dict[str, array[int]] = {}  # the numbers of its tasks
        self._failures = FailureCount()
        self._picked = PickedCases()
        self._results = 0
        self._started: float | None = None
        self._ended: float | None = None

    def add(self, result: Result) -> None:
        task = self._tasks.get(result.task)
        if task is None:
            task = self._tasks[result.task] = len(self._tasks)
            self._has_verdict.append(0)
            for tag in result.tags:
                self._by_tag.setdefault(tag, array("I")).append(task)
        agent = self._agents.get(result.agent)
        if agent is None:
            agent = self._agents[result.agent] = _Agent()
        agent.add(result, task)
        if result.verdict is not None:
            self._has_verdict[task] = 1
        outcome = outcome_of(result)
        kind = failure_kind(result, outcome)
        if kind is not None:
            self._failures.add(kind, result.agent, failure_message(result, outcome))
        for where in result.repeated:
            self._failures.add(REPEATED, result.agent, shown_message(where))
        self._picked.add(result, self._results, kind)
        self._results += 1
        start, end = result.times.started, result.times.started + result.times.wall_s
        self._started = start if self._started is None else min(self._started, start)
        self._ended = end if self._ended is None else max(self._ended, end)

    def report(
        self,
        whole: Callable[[Collection[str]], Iterable[Result]],
        run: str,
        planned: int | None,
        has_grader: Callable[[str], bool] | None,
    ) -> Report:
        for agent in self._agents.values():
            agent.grow(len(self._tasks))
        self._judge_unfinished(has_grader)
        currency = self._currency()
        slowest, dearest = self._picked.slowest, self._picked.dearest(currency)
        failed, differing = self._picked.failed, self._differing()
        keys = {*slowest, *dearest, *failed}
        before = "" if not run or run.endswith("/") else f"{run}/"
        tasks = {*differing, *(task for task, _, _ in keys)}
        cases, firsts = read_cases(whole(tasks), keys, set(differing), before)
        names = sorted(self._agents)
        return Report(
            run=run,
            results=self._results,
            planned=planned,
            tasks=len(self._tasks),
            tags=len(self._by_tag),
            most_attempts=max((one.most_attempts for one in self._agents.values()), default=0),
            first_started=self._started,
            last_ended=self._ended,
            agents=self._summaries(names, currency),
            comparisons=self._comparisons(names),
            failures=self._failures.summaries(),
            failed=_present(cases, failed),
            slowest=_present(cases, slowest),
            dearest=_present(cases, dearest),
            disagreements=tuple(_differing_cases(firsts[task]) for task in differing),
        )

    def _judge_unfinished(self, has_grader: Callable[[str], bool] | None) -> None:
        """Count attempts that did not finish as not passed, at tasks that have a grader."""
        for name, task in self._tasks.items():
            if not (self._has_verdict[task] or (has_grader is not None and has_grader(name))):
                continue
            for agent in self._agents.values():
                agent.judged[task] += agent.unfinished[task]

    def _currency(self) -> str:
        """Return the currency that is reported most."""
        counts: Counter[str] = Counter()
        for agent in self._agents.values():
            for currency, costs in agent.costs.items():
                counts[currency] += len(costs)
        return counts.most_common(1)[0][0] if counts else ""

    def _summaries(self, names: list[str], currency: str) -> tuple[AgentSummary, ...]:
        agents = [self._agents[name] for name in names]
        walls = distributions([one.wall for one in agents])
        none = array("d")
        costs = distributions([one.costs.get(currency, none) for one in agents])
        tokens = distributions([one.tokens for one in agents])
        calls = distributions([one.tool_calls for one in agents])
        rows = zip(names, agents, walls, costs, tokens, calls, strict=True)
        tags = sorted(self._by_tag, key=lambda tag: (-len(self._by_tag[tag]), tag))[:_MAX_TAGS]
        return tuple(self._summary(row, currency, tags) for row in rows)

    def _summary(
        self,
        row: tuple[
            str,
            _Agent,
            Distribution | None,
            Distribution | None,
            Distribution | None,
            Distribution | None,
        ],
        currency: str,
        tags: list[str],
    ) -> AgentSummary:
        name, agent, wall, cost, tokens, calls = row
        by_tag = {tag: _rate(agent, self._by_tag[tag]) for tag in tags}
        return AgentSummary(
            name=name,
            attempts=agent.attempts,
            statuses=dict(agent.statuses.most_common()),
            outcomes=dict(agent.outcomes.most_common()),
            success=_rate(agent, range(len(self._tasks))),
            by_tag={tag: rate for tag, rate in by_tag.items() if rate is not None},
            mean_score=agent.scores / agent.scored if agent.scored else None,
            wall_s=wall,
            cost=cost,
            currency=(currency or None) if cost else None,
            costs={one: sum(values) for one, values in agent.costs.items()},
            tokens=tokens,
            input_tokens=agent.input_tokens,
            output_tokens=agent.output_tokens,
            tool_calls=calls,
            grader_costs=agent.grader_costs,
            grader_tokens=agent.grader_tokens,
        )

    def _comparisons(self, names: list[str]) -> tuple[Comparison, ...]:
        compared = sorted(names, key=lambda name: (-self._agents[name].attempts, name))
        pairs = combinations(sorted(compared[:_MAX_COMPARED]), 2)
        found = [one for one in (self._compared(*pair) for pair in pairs) if one is not None]
        adjusted = holm([one.p for one in found])
        return tuple(
            Comparison(
                first=one.first,
                second=one.second,
                tasks=one.tasks,
                wins=one.wins,
                losses=one.losses,
                ties=one.ties,
                difference=one.difference,
                interval=one.interval,
                p=one.p,
                p_adjusted=p,
            )
            for one, p in zip(found, adjusted, strict=True)
        )

    def _compared(self, first: str, second: str) -> Comparison | None:
        """Compare two agents; None if no task was judged for both."""
        one, other = self._agents[first], self._agents[second]
        tasks = wins = losses = 0
        total = squares = 0.0
        for task in range(len(self._tasks)):
            if not (one.judged[task] and other.judged[task]):
                continue
            tasks += 1
            difference = (
                one.passed[task] / one.judged[task] - other.passed[task] / other.judged[task]
            )
            wins += difference > 0
            losses += difference < 0
            total += difference
            squares += difference * difference
        if not tasks:
            return None
        p = mcnemar_exact(wins, losses)
        return Comparison(
            first=first,
            second=second,
            tasks=tasks,
            wins=wins,
            losses=losses,
            ties=tasks - wins - losses,
            difference=total / tasks,
            interval=paired_difference(tasks, total, squares),
            p=p,
            p_adjusted=p,
        )

    def _differing(self) -> list[str]:
        """Return the tasks at which agents differ most, the greatest difference first."""
        found: list[tuple[float, int, str]] = []
        for name, task in self._tasks.items():
            rates = [
                agent.passed[task] / agent.judged[task]
                for agent in self._agents.values()
                if agent.judged[task]
            ]
            if len(rates) > 1 and (spread := max(rates) - min(rates)) > 0:
                found.append((-spread, task, name))
        return [name for _, _, name in sorted(found)[:_DISAGREEMENTS]]


def _rate(agent: _Agent, tasks: Iterable[int]) -> SuccessRate | None:
    numbers = [task for task in tasks if agent.judged[task]]
    if not numbers:
        return None

    def pairs() -> Iterator[tuple[int, int]]:
        return ((agent.passed[task], agent.judged[task]) for task in numbers)

    rate, interval = clustered_rate(pairs())
    return SuccessRate(
        passed=sum(passed for passed, _ in pairs()),
        judged=sum(judged for _, judged in pairs()),
        tasks=len(numbers),
        rate=rate,
        interval=interval,
    )


def _differing_cases(cases: dict[str, Case]) -> tuple[Case, ...]:
    """Return the attempts of a few agents at a task, if possible passed and not passed ones."""
    names = sorted(cases)
    if len(names) > _SHOWN_OF_DISAGREEMENT:
        half = _SHOWN_OF_DISAGREEMENT // 2
        passed = [name for name in names if cases[name].outcome == "passed"]
        others = [name for name in names if cases[name].outcome != "passed"]
        first = others[: max(half, _SHOWN_OF_DISAGREEMENT - len(passed))]
        names = sorted([*first, *passed[: _SHOWN_OF_DISAGREEMENT - len(first)]])
    return tuple(cases[name] for name in names)


def _present(
    cases: dict[tuple[str, str, int], Case], keys: list[tuple[str, str, int]]
) -> tuple[Case, ...]:
    return tuple(cases[key] for key in keys if key in cases)
