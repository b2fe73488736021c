"""The attempts that are worth reading: chosen in the first pass, read in the second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappush, heapreplace

from accord_fleet.report.failures import failure_message
from accord_fleet.report.summary import Case, Outcome, outcome_of
from accord_fleet.types.result import Result

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
