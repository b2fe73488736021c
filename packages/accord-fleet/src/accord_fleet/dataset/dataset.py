"""Reads the dataset of a run: one that runs, has ended, or has died.

`run_status` says how far it is, from a few columns of its results.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.lock import Holder, read_holder
from accord_fleet.dataset.run_file import read_plan, read_tasks
from accord_fleet.dataset.segments import (
    COLUMNS,
    SCHEMA,
    check_version,
    list_segments,
    open_part,
    part_name,
    read_journal,
    segment_results,
    table_of,
)
from accord_fleet.plan import Plan
from accord_fleet.storage import Storage, open_storage
from accord_fleet.types import Result, Task

_arrow: Any = pyarrow  # without types
_ROWS_OF_BATCH = 4096


class Dataset:
    """The dataset of a run. Reading needs no lock, and sees what is stored when it begins."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @classmethod
    def open(cls, address: str | os.PathLike[str]) -> Dataset:
        """Open the dataset at a path or an address of fsspec.

        Raises `DatasetError` if it is not a dataset, or has a later version.
        """
        dataset = cls(open_storage(address))
        _ = dataset.plan
        return dataset

    @property
    def address(self) -> str:
        """The path or address of the dataset."""
        return self._storage.address

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run."""
        return read_plan(self._storage)

    @property
    def writer(self) -> Holder | None:
        """The process that writes the dataset now; None if the run has ended or died."""
        return read_holder(self._storage)

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks; they are read as needed."""
        return read_tasks(self._storage)

    def results(
        self, *, tasks: Collection[str] | None = None, texts: bool = True
    ) -> Iterator[Result]:
        """Yield the results in the order in which they were stored; they are read as needed.

        `tasks` selects tasks by their ids. Without `texts`, the long texts are left out, which
        takes less time: answers, diffs, stderr, and details of verdicts.
        """
        for segment in list_segments(self._storage):
            yield from segment_results(self._storage, segment, tasks=tasks, texts=texts)

    def batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Yield the results as tables of `pyarrow`, at most 4,096 rows each.

        `columns` are the names of the columns to read; None reads all.
        """
        names = [column.name for column in COLUMNS] if columns is None else columns
        schema = _arrow.schema([SCHEMA.field(name) for name in names])
        for segment in list_segments(self._storage):
            if segment.part is None:
                try:
                    table = table_of(read_journal(self._storage, segment.journals).results)
                except FileNotFoundError:
                    # A run has folded it since the segments were listed.
                    segment = segment._replace(part=part_name(segment.number))
                else:
                    yield table.select(names).cast(schema)
                    continue
            with open_part(self._storage, segment.part or "") as part:
                stored_schema = part.schema_arrow
                check_version(stored_schema, segment.part or "")
                stored = [name for name in names if name in stored_schema.names]
                for batch in part.iter_batches(
                    batch_size=_ROWS_OF_BATCH, columns=stored, use_threads=False
                ):
                    yield _completed(_arrow.Table.from_batches([batch]), schema)

    def to_arrow(self, columns: list[str] | None = None) -> Any:
        """Return all results as one `pyarrow.Table`."""
        tables = list(self.batches(columns))
        if not tables:
            return SCHEMA.empty_table().select(columns or SCHEMA.names)
        return _arrow.concat_tables(tables)

    def read_trace(self, result: Result) -> bytes:
        """Return the recording of a result; raise `FileNotFoundError` if it has none."""
        if result.trace is None:
            raise FileNotFoundError(f"{result.task} was not recorded")
        return self._storage.read(result.trace)


def _completed(table: Any, schema: Any) -> Any:
    """Add the columns that a part of an earlier version lacks."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, _arrow.nulls(table.num_rows, field.type))
    table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


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
    elif found.remaining and not plan.imported:
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
