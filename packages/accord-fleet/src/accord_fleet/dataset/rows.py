"""The columns of results in Parquet, and results from and to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.errors import DatasetError
from accord_fleet.types.result import Failure, Result, Times, Usage, Verdict

SCHEMA_VERSION: int = 1
"""Increased if a column changes its meaning or type; new columns do not increase it."""
_VERSION_KEY = b"accord_fleet.version"

_arrow: Any = pyarrow  # without types
_TEXT = _arrow.string()
_INT = _arrow.int64()
_FLOAT = _arrow.float64()
_TEXTS = _arrow.list_(_TEXT)


class Column(NamedTuple):
    """A column, and the field of `Result` that it has."""

    name: str
    type: Any
    field: str
    about: str
    is_long: bool = False
    """Whether texts of any length are in it, which counts do not need."""


COLUMNS: tuple[Column, ...] = (
    Column("task", _TEXT, "task", "id of the task"),
    Column("agent", _TEXT, "agent", "name of the agent"),
    Column("attempt", _INT, "attempt", "number of the attempt, from 1"),
    Column("status", _TEXT, "status", "how the attempt ended"),
    Column("failed_part", _TEXT, "failure.where", "what failed; null if nothing did"),
    Column("limit", _TEXT, "failure.limit", "the limit that was reached"),
    Column("failure", _TEXT, "failure.message", "why the attempt did not finish"),
    Column("stop_reasons", _TEXTS, "stop_reasons", "stop reason of each turn that ended"),
    Column("answer", _TEXT, "answer", "text of the last turn", is_long=True),
    Column("diff", _TEXT, "diff", "changes of the workspace as a unified diff", is_long=True),
    Column("files_changed", _TEXTS, "files_changed", "relative paths", is_long=True),
    Column("tool_calls", _INT, "tool_calls", "number of tool calls"),
    Column("passed", _arrow.bool_(), "verdict.passed", "verdict of the grader"),
    Column("score", _FLOAT, "verdict.score", "score of the grader"),
    Column("verdict", _TEXT, "verdict.reason", "reason of the grader; null without a verdict"),
    Column("grader_error", _TEXT, "verdict.error", "why the grader itself failed"),
    Column(
        "verdict_details", _TEXT, "verdict.details", "details of the grader as JSON", is_long=True
    ),
    Column("input_tokens", _INT, "usage.input_tokens", "tokens of all turns; null if unknown"),
    Column("output_tokens", _INT, "usage.output_tokens", "tokens of all turns; null if unknown"),
    Column("total_tokens", _INT, "usage.total_tokens", "tokens of all turns; null if unknown"),
    Column("cost", _FLOAT, "usage.cost", "cost of all turns; null if unknown"),
    Column("currency", _TEXT, "usage.currency", "currency of the cost"),
    *(
        Column(f"grader_{name}", kind, f"verdict.usage.{name}", "the same of an agent that graded")
        for name, kind in (
            ("input_tokens", _INT),
            ("output_tokens", _INT),
            ("total_tokens", _INT),
            ("cost", _FLOAT),
            ("currency", _TEXT),
        )
    ),
    Column("started", _FLOAT, "times.started", "start in seconds since 1970 (UTC)"),
    Column("workspace_s", _FLOAT, "times.workspace_s", "seconds for the workspace"),
    Column("start_s", _FLOAT, "times.start_s", "seconds from the start to the session"),
    Column("turns_s", _arrow.list_(_FLOAT), "times.turns_s", "seconds of each turn"),
    Column("grading_s", _FLOAT, "times.grading_s", "seconds of the grader"),
    Column("wall_s", _FLOAT, "times.wall_s", "seconds of the attempt"),
    Column("stderr", _TEXT, "stderr", "end of the agent's stderr", is_long=True),
    Column("trace", _TEXT, "trace", "recording, relative to the folder of the run"),
    Column("machine", _TEXT, "machine", "machine that ran the attempt"),
    Column("tags", _TEXTS, "tags", "tags of the task"),
    Column("repeated", _TEXTS, "repeated", "failed starts before, each with its machine"),
)
SCHEMA: Any = _arrow.schema(
    [_arrow.field(column.name, column.type) for column in COLUMNS],
    metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()},
)


def table_of(results: Iterable[Result]) -> Any:
    """Return the results as a `pyarrow.Table`."""
    rows = list(results)
    arrays = [
        _arrow.array([_value(result, column.field) for result in rows], type=column.type)
        for column in COLUMNS
    ]
    return _arrow.Table.from_arrays(arrays, schema=SCHEMA)


def results_of(batch: Any, name: str) -> Iterator[Result]:
    """Yield the results of a record batch of the part `name`.

    Columns that the part lacks have their defaults, and unknown columns are ignored. Raises
    `DatasetError` if the part has a later version.
    """
    check_version(batch.schema, name)
    for row in batch.to_pylist():
        yield _result(row)


def check_version(schema: Any, name: str) -> None:
    """Raise `DatasetError` if a part has a later version of the columns."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    version = int(metadata.get(_VERSION_KEY, b"1"))
    if version > SCHEMA_VERSION:
        raise DatasetError(
            f"{name} has version {version} of the columns, and this version of Accord reads "
            f"versions up to {SCHEMA_VERSION}"
        )


def _value(result: Result, field: str) -> Any:
    """Return a field, or None in a part of the result that is None."""
    value: Any = result
    for name in field.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    if field == "verdict.details":
        return msgspec.json.encode(value).decode() if value else None
    return value


def _result(row: dict[str, Any]) -> Result:
    def texts(name: str) -> tuple[Any, ...]:
        return tuple(row.get(name) or ())

    failure = verdict = None
    if row.get("failure") is not None:
        failure = Failure(where=row["failed_part"], limit=row["limit"], message=row["failure"])
    if row.get("verdict") is not None:
        details = row.get("verdict_details")
        verdict = Verdict(
            passed=row["passed"],
            score=row["score"],
            reason=row["verdict"],
            error=row["grader_error"],
            details=msgspec.json.decode(details) if details else {},
            usage=_usage(row, "grader_"),
        )
    return Result(
        task=row["task"],
        agent=row["agent"],
        attempt=row["attempt"],
        status=row["status"],
        failure=failure,
        stop_reasons=texts("stop_reasons"),
        answer=row.get("answer") or "",
        diff=row.get("diff") or "",
        files_changed=texts("files_changed"),
        tool_calls=row.get("tool_calls") or 0,
        verdict=verdict,
        usage=_usage(row),
        times=Times(
            started=row["started"],
            workspace_s=row.get("workspace_s") or 0.0,
            start_s=row.get("start_s") or 0.0,
            turns_s=texts("turns_s"),
            grading_s=row.get("grading_s") or 0.0,
            wall_s=row.get("wall_s") or 0.0,
        ),
        stderr=row.get("stderr") or "",
        trace=row.get("trace"),
        machine=row.get("machine") or "",
        tags=texts("tags"),
        repeated=texts("repeated"),
    )


def _usage(row: dict[str, Any], prefix: str = "") -> Usage:
    return Usage(**{name: row.get(f"{prefix}{name}") for name in Usage.__struct_fields__})
