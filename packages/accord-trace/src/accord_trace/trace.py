"""A recording to be read: its files, its header, its records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from accord_trace.folder import NO_RECORDINGS, all_names
from accord_trace.importing import import_records
from accord_trace.piped import PipedFile, is_pipe
from accord_trace.reading import TraceError, lines_of, trace_files
from accord_trace.records import Direction, Header, Record, is_damaged


class Trace:
    """A recording; iterate over it for its records, from the beginning each time.

    Only one line is in memory. `problems` describes the lines that the last iteration has skipped.
    Raise `TraceError` if a file cannot be read or has no record.
    """

    def __init__(
        self,
        files: list[Path],
        *,
        first: Direction = "to_agent",
        name: str | None = None,
        copy: PipedFile | None = None,
        beginning: int | None = None,
    ) -> None:
        self.files: list[Path] = files
        self.name: str = files[0].name if name is None else name  # in the folder that was opened
        self.header: Header = Header()  # of the first part, as soon as it was read
        self.problems: list[str] = []
        self.was_cut: bool = False  # the last iteration has read only the beginning
        self._first: Direction = first
        self._copy = copy  # removed with this object
        self._beginning = beginning  # about how many bytes are read; None: all
        self._left = 0  # of these

    def __iter__(self) -> Iterator[Record]:
        return (record for record in self.with_damaged() if not is_damaged(record))

    def with_damaged(self) -> Iterator[Record]:
        """Yield the records, and a message of neither side for each line that is damaged.

        So messages have the numbers that they have in a `MessageIndex`.
        """
        self.problems, self.was_cut = [], False
        self._left = self._beginning or 0
        found = False
        for number, file in enumerate(self.files):
            if self._beginning is not None and self._left <= 0:
                self.was_cut = True
            if self.was_cut:
                break
            for item in import_records(
                self._lines_of(file), self.problems, first=self._first, with_damaged=True
            ):
                found = found or isinstance(item, Header) or not is_damaged(item)
                if isinstance(item, Record):
                    yield item
                elif number == 0:
                    self.header = item
        if not found:
            why = f": {self.problems[0]}" if self.problems else ": it is empty"
            if self.was_cut:
                why = f": its first {self._beginning:,} bytes have no message"
            place = self.files[0] if self._copy is None else self._copy.pipe
            raise TraceError(f"Expected a recording in {place}{why}")

    def _lines_of(self, file: Path) -> Iterator[bytes]:
        if self._beginning is None:
            yield from lines_of(file, self.problems)
            return
        lines = lines_of(file, self.problems, beginning=max(self._left, 1))
        while True:
            try:
                line = next(lines)
            except StopIteration as end:
                self.was_cut = end.value
                return
            self._left -= len(line) + 1
            yield line


def open_trace(path: str | os.PathLike[str], *, first: Direction = "to_agent") -> Trace:
    """Return the recording at a path, in any known format, with its later parts.

    All that comes through a pipe is copied to a temporary file first.
    `first` is the direction of the first message where none is recorded.
    """
    if Path(path).is_dir():
        raise TraceError(f"Expected a file, got the folder {path}")
    return _trace_at(Path(path), first)


def open_traces(
    path: str | os.PathLike[str],
    *,
    first: Direction = "to_agent",
    problems: list[str] | None = None,
) -> list[Trace]:
    """Return the recordings of a folder and of the folders in it, by name, or the one at a path.

    The name of a recording in an inner folder is `folder/name`. Inner folders that cannot be read
    are skipped, and described in `problems`. Raise `TraceError` if there are no recordings.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [_trace_at(folder, first)]
    found = [
        Trace(trace_files(folder / name), first=first, name=name)
        for name in all_names(folder, problems)
    ]
    if not found:
        raise TraceError(NO_RECORDINGS.format(folder=folder))
    return found


def _trace_at(path: Path, first: Direction) -> Trace:
    if not is_pipe(path):
        return Trace(trace_files(path), first=first)
    copy = PipedFile(path)
    return Trace([copy.path], first=first, copy=copy)
