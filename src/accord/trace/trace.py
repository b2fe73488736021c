"""A recording to be read: its files, its header, its records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from accord.trace.importing import import_records
from accord.trace.reading import TraceError, lines_of, trace_files
from accord.trace.records import Direction, Header, Record

__all__ = ("Trace", "open_trace", "open_traces")


class Trace:
    """A recording; iterate over it for its records, from the beginning each time.

    Only one line is in memory. `problems` describes the lines that the last iteration has skipped.
    Raise `TraceError` if a file cannot be read or has no record.
    """

    def __init__(self, files: list[Path], *, first: Direction = "to_agent") -> None:
        self.files: list[Path] = files
        self.header: Header = Header()  # of the first part, as soon as it was read
        self.problems: list[str] = []
        self._first: Direction = first

    @property
    def name(self) -> str:
        """The name of the first file."""
        return self.files[0].name

    def __iter__(self) -> Iterator[Record]:
        self.problems = []
        found = False
        for number, file in enumerate(self.files):
            for item in import_records(lines_of(file), self.problems, first=self._first):
                found = True
                if isinstance(item, Record):
                    yield item
                elif number == 0:
                    self.header = item
        if not found:
            why = f": {self.problems[0]}" if self.problems else ": it is empty"
            raise TraceError(f"Expected a recording in {self.files[0]}{why}")


def open_trace(path: str | os.PathLike[str], *, first: Direction = "to_agent") -> Trace:
    """Return the recording at a path, in any known format, with its later parts.

    `first` is the direction of the first message where none is recorded.
    """
    if Path(path).is_dir():
        raise TraceError(f"Expected a file, got the folder {path}")
    return Trace(trace_files(path), first=first)


def open_traces(path: str | os.PathLike[str], *, first: Direction = "to_agent") -> list[Trace]:
    """Return the recordings of a folder, ordered by name, or the one at a path."""
    files = trace_files(path)
    if not Path(path).is_dir():
        return [Trace(files, first=first)]
    parts = {part for file in files for part in trace_files(file)[1:]}
    return [Trace(trace_files(file), first=first) for file in files if file not in parts]
