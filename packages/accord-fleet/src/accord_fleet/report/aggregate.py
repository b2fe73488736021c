"""Makes a report of results, which are never held.

A first pass over all of them counts; it needs about 100 bytes for each result, and no long texts.
A second one reads the tasks of the few attempts that the report shows.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappush, heapreplace
from itertools import combinations
from math import exp, log

from accord_fleet.dataset.dataset import Dataset
from accord_fleet.report.summary import (
    REPEATED,
    AgentSummary,
    Case,
    Comparison,
    Distribution,
    FailureCount,
    Outcome,
    Report,
    SuccessRate,
    clustered_rate,
    failure_kind,
    failure_message,
    holm,
    mcnemar_exact,
    outcome_of,
    paired_difference,
    quantile,
    shown_message,
)
from accord_fleet.types import Result, Usage

# Distributions with common bins, so that the charts of agents can be compared.

_BINS = 32
_LOGARITHMIC = 30  # from this ratio of the largest to the smallest positive value


def distributions(values: Sequence[array[float]]) -> list[Distribution | None]:
    """Return the distribution of each array, all with the same bins; None for an empty one."""
    filled = [array("d", sorted(one)) for one in values]
    some = [one for one in filled if one]
    if not some:
        return [None] * len(values)
    low, high = min(one[0] for one in some), max(one[-1] for one in some)
    edges = _edges(low, high)
    return [_distribution(one, edges) if one else None for one in filled]


def _edges(low: float, high: float) -> tuple[float, ...]:
    if high <= low:
        return ()
    if low > 0 and high / low >= _LOGARITHMIC:
        step = log(high / low) / _BINS
        middle = [low * exp(step * number) for number in range(1, _BINS)]
    else:
        middle = [low + (high - low) * number / _BINS for number in range(1, _BINS)]
    return (low, *middle, high)


def _distribution(ordered: array[float], edges: tuple[float, ...]) -> Distribution:
    counts = [0] * (len(edges) - 1) if edges else []
    if counts:
        place = 0
        for value in ordered:
            while place < len(counts) - 1 and value >= edges[place + 1]:
                place += 1
            counts[place] += 1
    return Distribution(
        count=len(ordered),
        total=sum(ordered),
        min=ordered[0],
        quarter=quantile(ordered, 0.25),
        median=quantile(ordered, 0.5),
        three_quarters=quantile(ordered, 0.75),
        p95=quantile(ordered, 0.95),
        max=ordered[-1],
        edges=edges,
        counts=tuple(counts),
    )


# The attempts that are worth reading: chosen in the first pass, read in the second.

Key = tuple[str, str, int]
_SHOWN = 10
_SHOWN_OF_A_KIND = 4
_SHOWN_KINDS = 12
_ANSWER, _DIFF = 1200, 3000  # characters


class PickedCases:
    """Chooses the slowest, dearest and failed attempts, and holds only their keys."""

    def __init__(self) -> None:
        self._slowest: list[tuple[float, int, Key]] = []
        self._dearest: dict[str, list[tuple[float, int, Key]]] = {}
        self._failed: list[tuple[str, Key]] = []
        self._kinds: Counter[str] = Counter()

    def add(self, result: Result, number: int, kind: str | None) -> None:
        """Consider a result; `number` counts results, `kind` is that of its failure."""
        _keep(self._slowest, result.times.wall_s, number, result.key)
        cost = result.usage.cost
        if cost:
            heap = self._dearest.setdefault(result.usage.currency or "", [])
            _keep(heap, cost, number, result.key)
        if kind is not None:
            # A few of each kind, so that a common failure does not hide a rare one.
            seen = self._kinds[kind]
            if seen < _SHOWN_OF_A_KIND and (seen or len(self._kinds) < _SHOWN_KINDS):
                self._failed.append((kind, result.key))
                self._kinds[kind] += 1

    @property
    def slowest(self) -> list[Key]:
        """The slowest attempts, the slowest first."""
        return [key for _, _, key in sorted(self._slowest, reverse=True)]

    @property
    def failed(self) -> list[Key]:
        """Failed attempts, a few of each kind."""
        return [key for _, key in sorted(self._failed, key=lambda one: one[0])]

    def dearest(self, currency: str) -> list[Key]:
        """Return the attempts that cost most in a currency, the dearest first."""
        return [key for _, _, key in sorted(self._dearest.get(currency, ()), reverse=True)]


def read_cases(
    results: Iterable[Result], keys: set[Key], tasks: set[str], trace_of: str
) -> tuple[dict[Key, Case], dict[str, dict[str, Case]]]:
    """Return the attempts with these keys, and of these tasks the first attempt of each agent.

    `trace_of` is put before the paths of recordings.
    """
    found: dict[Key, Case] = {}
    firsts: dict[str, dict[str, Case]] = {task: {} for task in tasks}
    for result in results:
        agents = firsts.get(result.task)
        if agents is None and result.key not in keys:
            continue
        case = _case(result, trace_of)
        if result.key in keys:
            found[result.key] = case
        if agents is not None:
            before = agents.get(result.agent)
            if before is None or before.attempt > result.attempt:
                agents[result.agent] = case
    return found, firsts


def _case(result: Result, trace_of: str) -> Case:
    outcome: Outcome = outcome_of(result)
    usage = result.usage
    return Case(
        task=result.task,
        agent=result.agent,
        attempt=result.attempt,
        status=result.status,
        outcome=outcome,
        reason=failure_message(result, outcome),
        wall_s=result.times.wall_s,
        cost=usage.cost,
        currency=usage.currency,
        tokens=usage.total_tokens,
        tool_calls=result.tool_calls,
        answer=_beginning(result.answer, _ANSWER),
        diff=_beginning(result.diff, _DIFF),
        trace=None if result.trace is None else f"{trace_of}{result.trace}",
    )


def _beginning(text: str, length: int) -> str:
    return (
        text
        if len(text) <= length
        else f"{text[:length]}\n… {len(text) - length:,} more characters"
    )


def _keep(heap: list[tuple[float, int, Key]], value: float, number: int, key: Key) -> None:
    entry = (value, -number, key)
    if len(heap) < _SHOWN:
        heappush(heap, entry)
    elif entry > heap[0]:
        heapreplace(heap, entry)


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


def read_report(address: str) -> Report:
    """Return the report of the dataset at a path or an address, as it is now.

    Raises `DatasetError` if it is not a dataset.
    """
    dataset = Dataset.open(address)
    graded = {task.id for task in dataset.tasks() if task.grader is not None}
    return report_of(
        lambda: dataset.results(texts=False),
        address.rstrip("/"),
        whole=lambda tasks: dataset.results(tasks=tasks),
        planned=dataset.plan.total,
        has_grader=graded.__contains__,
    )
