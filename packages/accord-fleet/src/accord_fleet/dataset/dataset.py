"""Reads the dataset of a run: one that runs, has ended, or has died."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.holder import Holder
from accord_fleet.dataset.lock import read_holder
from accord_fleet.dataset.rows import COLUMNS, SCHEMA, check_version, table_of
from accord_fleet.dataset.run_file import read_plan, read_tasks
from accord_fleet.dataset.segments import (
    list_segments,
    open_part,
    part_name,
    read_journal,
    segment_results,
)
from accord_fleet.dataset.storage import Storage, open_storage
from accord_fleet.plan import Plan
from accord_fleet.types.result import Result
from accord_fleet.types.task import Task

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
