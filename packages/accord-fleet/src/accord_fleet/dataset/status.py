"""How far a run is, from a few columns of its results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.dataset import Dataset
from accord_fleet.dataset.holder import Holder

_arrow: Any = pyarrow  # without types
_compute: Any = pyarrow.compute
_COLUMNS = [
    "agent",
    "status",
    "failed_part",
    "limit",
    "passed",
    "started",
    "wall_s",
    "grading_s",
    "cost",
    "currency",
    "total_tokens",
]
_GROUPS = ["agent", "status", "failed_part", "limit", "passed", "currency"]
_WINDOW_S = 300.0
_ROWS_AT_ONCE = 50_000


class FailureCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often attempts did not finish for one reason."""

    status: str
    reason: str | None
    """The part that failed, or the limit that was reached."""
    count: int


class AgentStatus(msgspec.Struct, kw_only=True):
    """The results of one agent."""

    total: int
    done: int = 0
    finished: int = 0
    passed: int = 0
    not_passed: int = 0
    cost: dict[str, float] = {}


class RunStatus(msgspec.Struct, kw_only=True):
    """How far a run is."""

    run: str
    state: Literal["running", "ended", "stopped"]
    """`stopped`: attempts remain, and no process runs them."""
    writer: Holder | None
    total: int
    """Number of attempts."""
    done: int = 0
    """Attempts that have a result; those that were cancelled are run again by `resume`."""
    remaining: int = 0
    statuses: dict[str, int] = {}
    failures: list[FailureCount] = []
    """The most frequent first."""
    agents: dict[str, AgentStatus] = {}
    cost: dict[str, float] = {}
    """Cost so far by currency."""
    with_cost: int = 0
    """Results that report a cost."""
    tokens: int = 0
    per_second: float | None = None
    """Results per second in the last five minutes; None unless it runs."""
    left_s: float | None = None
    """Estimated seconds to the end; None if they are not known."""


def run_status(dataset: Dataset) -> RunStatus:
    """Return how far a run is; a few columns are read, a part at a time."""
    plan = dataset.plan
    writer = dataset.writer
    each = plan.tasks * plan.attempts
    found = RunStatus(run=dataset.address, state="ended", writer=writer, total=plan.total)
    found.agents = {agent.name: AgentStatus(total=each) for agent in plan.agents}
    failures: Counter[tuple[str, str | None]] = Counter()
    now = time.time()
    window_s = _WINDOW_S if writer is None else min(_WINDOW_S, now - writer.started)
    recent = 0
    for table in _joined(dataset.batches(_COLUMNS)):
        groups = table.group_by(_GROUPS, use_threads=False).aggregate(
            [("started", "count"), ("cost", "sum"), ("cost", "count"), ("total_tokens", "sum")]
        )
        for row in groups.to_pylist():
            _count(found, failures, row)
        seconds = _compute.add(table["wall_s"], table["grading_s"])
        ends = _compute.add(table["started"], seconds)
        recent += _compute.sum(_compute.greater(ends, now - window_s)).as_py() or 0
    cancelled = found.statuses.get("cancelled", 0)
    found.remaining = max(0, found.total - found.done + cancelled)
    found.failures = [
        FailureCount(status=status, reason=reason, count=count)
        for (status, reason), count in failures.most_common()
    ]
    if writer is not None:
        found.state = "running"
        if recent and window_s > 0:
            rate = recent / window_s
            found.per_second = rate
            found.left_s = found.remaining / rate
    elif found.remaining:
        found.state = "stopped"
    return found


def _joined(tables: Iterable[Any]) -> Iterator[Any]:
    """Yield fewer and larger tables: counting one takes the time of many rows."""
    waiting: list[Any] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield _arrow.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _arrow.concat_tables(waiting)


def _count(found: RunStatus, failures: Counter[tuple[str, str | None]], row: Any) -> None:
    """Count the rows of one group."""
    count: int = row["started_count"]
    status: str = row["status"]
    found.done += count
    found.statuses[status] = found.statuses.get(status, 0) + count
    if status != "finished":
        failures[status, row["limit"] or row["failed_part"]] += count
    agent = found.agents.setdefault(row["agent"], AgentStatus(total=0))
    agent.done += count
    agent.finished += count * (status == "finished")
    agent.passed += count * (row["passed"] is True)
    agent.not_passed += count * (row["passed"] is False)
    found.with_cost += row["cost_count"]
    found.tokens += row["total_tokens_sum"] or 0
    if row["cost_count"]:
        currency: str = row["currency"] or ""
        for costs in (found.cost, agent.cost):
            costs[currency] = costs.get(currency, 0.0) + row["cost_sum"]
