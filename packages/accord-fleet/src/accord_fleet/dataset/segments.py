"""Segments of a dataset: a journal of results, which becomes one Parquet part.

Segment 7 is the part `results/part-000007.parquet` if that exists; otherwise, it is the lines of
the files `journal/000007*.jsonl`. A part appears whole, and only then is its journal removed: at
every moment, each result is in exactly one segment, once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.errors import DatasetError
from accord_fleet.dataset.rows import COLUMNS, results_of, table_of
from accord_fleet.dataset.storage import Storage
from accord_fleet.types.result import Result

Key = tuple[str, str, int]
"""Task, agent and attempt."""
JOURNAL = "journal"
RESULTS = "results"

_arrow: Any = pyarrow  # without types
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
