"""Failures by kind, with the commonest messages of each."""

from __future__ import annotations

import re
from collections import Counter

from accord.text.excerpt import one_line
from accord_fleet.report.summary import FailureSummary, Outcome, Reason
from accord_fleet.types.result import Result

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
