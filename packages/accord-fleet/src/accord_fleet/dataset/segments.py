"""Segments of a dataset: a journal of results, which becomes one Parquet part.

Segment 7 is the part `results/part-000007.parquet` if that exists; otherwise, it is the lines of
the files `journal/000007*.jsonl`. A part appears whole, and only then is its journal removed: at
every moment, each result is in exactly one segment, once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.storage import PRIVATE_FILE, DatasetError, Storage, make_private_folder
from accord_fleet.types import Failure, Result, Times, Usage, Verdict

# The columns of parts, and results from and to them.

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


Key = tuple[str, str, int]
"""Task, agent and attempt."""
JOURNAL = "journal"
RESULTS = "results"

_parquet: Any = pyarrow.parquet
_JOURNAL_NAME = re.compile(r"(\d{6,})(-\d{6,})?\.jsonl")
_PART_NAME = re.compile(r"part-(\d{6,})\.parquet")
_ROWS_OF_GROUP = 1024
_ROWS_OF_BATCH = 256
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Result)


class Segment(NamedTuple):
    """A segment, with the names of its files."""

    number: int
    part: str | None
    journals: tuple[str, ...]


class ReadJournal(NamedTuple):
    """The results in a journal, and what is not one."""

    results: list[Result]
    torn: int
    """Lines that are not complete results: a process died, or the disk was full."""


class Removed(NamedTuple):
    """What a row was that was removed."""

    key: Key
    status: str
    had_turn: bool


def part_name(number: int) -> str:
    """Return the name of the part of a segment."""
    return f"{RESULTS}/part-{number:06}.parquet"


def journal_name(number: int, piece: int | None = None, folder: str = JOURNAL) -> str:
    """Return the name of the journal of a segment, or of one of its pieces."""
    return f"{folder}/{number:06}{'' if piece is None else f'-{piece:06}'}.jsonl"


def encode_result(result: Result) -> bytes:
    """Return the line of a result; lone surrogates, which JSON cannot carry, become `?`."""
    try:
        return _encoder.encode(result) + b"\n"
    except UnicodeEncodeError:
        clean = _without_surrogates(msgspec.to_builtins(result))
        return _encoder.encode(clean) + b"\n"


def list_segments(storage: Storage) -> list[Segment]:
    """Return the segments by number, also while a run folds journals into parts.

    Journals are listed before parts: a journal that is missing in the first list was folded before,
    so that its part is in the second.
    """
    journals: dict[int, list[str]] = {}
    for name in storage.names(JOURNAL):
        if match := _JOURNAL_NAME.fullmatch(name):
            journals.setdefault(int(match[1]), []).append(f"{JOURNAL}/{name}")
    parts = {
        int(match[1]): f"{RESULTS}/{name}"
        for name in storage.names(RESULTS)
        if (match := _PART_NAME.fullmatch(name))
    }
    return [
        Segment(number, parts.get(number), tuple(sorted(journals.get(number, ()))))
        for number in sorted(parts.keys() | journals.keys())
    ]


def segment_results(
    storage: Storage,
    segment: Segment,
    *,
    tasks: Collection[str] | None = None,
    texts: bool = True,
) -> Iterator[Result]:
    """Yield the results of a segment, a batch at a time: all, or those of tasks.

    Without `texts`, columns with long texts are not read.
    """
    if segment.part is None:
        try:
            found = read_journal(storage, segment.journals).results
        except FileNotFoundError:
            # A run has folded it since the segments were listed.
            segment = segment._replace(part=part_name(segment.number))
        else:
            yield from (one for one in found if tasks is None or one.task in tasks)
            return
    if segment.part is not None:
        columns = None if texts else [column.name for column in COLUMNS if not column.is_long]
        with open_part(storage, segment.part) as part:
            for batch in part.iter_batches(batch_size=_ROWS_OF_BATCH, columns=columns):
                if tasks is not None:
                    wanted = [task in tasks for task in batch["task"].to_pylist()]
                    batch = batch.filter(_arrow.array(wanted))
                yield from results_of(batch, segment.part)


@contextmanager
def open_part(storage: Storage, name: str) -> Generator[Any]:
    """Open a part as a `pyarrow.parquet.ParquetFile` in the block.

    Raises `FileNotFoundError` if it does not exist, and `DatasetError` if it is not a part or its
    data is damaged.
    """
    try:
        with storage.open(name) as file, _parquet.ParquetFile(file) as part:
            yield part
    except FileNotFoundError:
        raise
    except (_arrow.ArrowException, OSError, KeyError, msgspec.MsgspecError) as error:
        detail = next(iter(str(error).splitlines()), type(error).__name__)
        raise DatasetError(
            f"{storage.address}: {name} cannot be read: {detail.rstrip('.')}; move it out of "
            f"{RESULTS}/, and `accord fleet resume {storage.address}` repeats its attempts"
        ) from error


def read_journal(storage: Storage, names: Iterable[str]) -> ReadJournal:
    """Return the results of journals; raise `FileNotFoundError` if one does not exist."""
    results: list[Result] = []
    torn = 0
    for name in names:
        with storage.open(name) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    torn += 1
                    continue
                try:
                    results.append(_decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    torn += 1
    return ReadJournal(results, torn)


def fold(storage: Storage, segment: Segment) -> None:
    """Make a journal that has no torn lines a part, and remove it."""
    if segment.part is None:
        write_part(storage, segment.number, read_journal(storage, segment.journals).results)
    for name in segment.journals:
        storage.remove(name)


def write_part(storage: Storage, number: int, results: Iterable[Result]) -> None:
    """Write the part of a segment, whole; a segment without results has none."""
    table = table_of(results)
    if table.num_rows:
        storage.write(part_name(number), _packed(table))


def remove_rows(storage: Storage, name: str, statuses: Set[str]) -> list[Removed]:
    """Remove the rows that have one of these statuses from a part, and return what they were."""
    with open_part(storage, name) as part:
        found = part.read(columns=["task", "agent", "attempt", "status", "turns_s"]).to_pylist()
        keep = [row["status"] not in statuses for row in found]
        if all(keep):
            return []
        table = part.read().filter(_arrow.array(keep))
    if table.num_rows:
        storage.write(name, _packed(table))
    else:
        storage.remove(name)
    return [
        Removed((row["task"], row["agent"], row["attempt"]), row["status"], bool(row["turns_s"]))
        for row, kept in zip(found, keep, strict=True)
        if not kept
    ]


def _packed(table: Any) -> Any:
    """Return the bytes of a Parquet file."""
    sink = _arrow.BufferOutputStream()
    _parquet.write_table(table, sink, compression="zstd", row_group_size=_ROWS_OF_GROUP)
    return sink.getvalue()


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return {_without_surrogates(key): _without_surrogates(item) for key, item in items}
        case list() | tuple():
            return [_without_surrogates(item) for item in cast("list[Any]", value)]
        case _:
            return value


# Journals.


class Journal(Protocol):
    """The journal of one segment; used by one thread at a time."""

    bytes: int
    """Bytes of the lines that were committed."""
    rows: int

    def commit(self, lines: list[bytes]) -> None:
        """Write lines so that they survive the end of this process, or none of them.

        Raises `OSError`; later calls may succeed.
        """
        ...

    def sync(self) -> None:
        """Make the lines survive a loss of power."""
        ...

    def close(self) -> Segment:
        """Close the journal and return its segment."""
        ...


def open_journal(storage: Storage, number: int, folder: str = JOURNAL) -> Journal:
    """Return the journal of a new segment, in a folder of the dataset."""
    if storage.folder is not None:
        return FileJournal(storage.folder, number, folder)
    return ObjectJournal(storage, number, folder)


class FileJournal:
    """A file to which lines are appended."""

    def __init__(self, root: Path, number: int, folder: str) -> None:
        self.bytes: int = 0
        self.rows: int = 0
        self._number = number
        self._name = journal_name(number, folder=folder)
        self._is_torn = False
        path = root / self._name
        make_private_folder(path.parent)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file: int = os.open(path, flags, PRIVATE_FILE)

    def commit(self, lines: list[bytes]) -> None:
        """Append lines, or none of them."""
        if self._is_torn:
            os.ftruncate(self._file, self.bytes)
            self._is_torn = False
        data = memoryview(b"".join(lines))
        size = len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except BaseException:
            self._is_torn = True
            raise
        self.bytes += size
        self.rows += len(lines)

    def sync(self) -> None:
        """Flush the file to the disk."""
        os.fsync(self._file)

    def close(self) -> Segment:
        """Flush and close the file."""
        try:
            if self._is_torn:
                os.ftruncate(self._file, self.bytes)
            os.fsync(self._file)
        finally:
            os.close(self._file)
        return Segment(self._number, None, (self._name,))


class ObjectJournal:
    """Objects with the lines of one commit each: object stores cannot append."""

    def __init__(self, storage: Storage, number: int, folder: str) -> None:
        self.bytes: int = 0
        self.rows: int = 0
        self._storage = storage
        self._number = number
        self._folder = folder
        self._names: list[str] = []
        self._may_exist = False
        """Whether the next object was put without an answer; it is replaced."""

    def commit(self, lines: list[bytes]) -> None:
        """Put an object with the lines."""
        data = b"".join(lines)
        name = journal_name(self._number, len(self._names) + 1, self._folder)
        if self._may_exist:
            self._storage.write(name, data)
        else:
            self._may_exist = True
            self._create(name, data)
        self._may_exist = False
        self._names.append(name)
        self.bytes += len(data)
        self.rows += len(lines)

    def _create(self, name: str, data: bytes) -> None:
        try:
            self._storage.create(name, data)
        except FileExistsError:
            # A library that repeats a put after a lost answer gets this for its own object.
            if self._storage.read(name) != data:
                self._may_exist = False
                raise

    def sync(self) -> None:
        """Do nothing: an object that was put is durable."""

    def close(self) -> Segment:
        """Return the segment."""
        return Segment(self._number, None, tuple(self._names))
