"""Reads recordings: a `Trace` has its files, its header and its records.

Files are read line by line: gigabytes are never in memory. A folder has several recordings. What
comes through a pipe is copied, because it is read more than once.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO

from accord.text.excerpt import one_line
from accord_trace.importing import import_records
from accord_trace.records import Direction, Header, Record, decode_header, decode_record, is_damaged
from accord_trace.trace_file import TraceError as TraceError
from accord_trace.trace_file import Unpacker, part_path, unpacker_of

_CHUNK = 1024 * 1024


def lines_of(
    path: Path, problems: list[str] | None = None, *, beginning: int | None = None
) -> Generator[bytes, None, bool]:
    """Yield the lines of a file, without line ends; a compressed one may be cut anywhere.

    That it was cut or is damaged is described in `problems`. With `beginning`, only the lines in
    about so many bytes are read; return whether there are more. Raise `TraceError` if it cannot be
    read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            return (yield from lines_in(file, path, problems, beginning=beginning))
    except OSError as exc:
        raise TraceError(f"Cannot read {path}: {exc.strerror or exc}") from None


def lines_in(
    file: IO[bytes],
    name: object,
    problems: list[str] | None = None,
    *,
    beginning: int | None = None,
) -> Generator[bytes, None, bool]:
    """Yield the lines of an open file as `lines_of` does; raise `TraceError` or `OSError`."""
    rest: list[bytes] = []  # of a line, joined once: it can have many megabytes
    read = 0
    unpacker: Unpacker | None = None
    while data := file.read(_CHUNK):
        if unpacker is None:
            unpacker = unpacker_of(data, name)
        for piece in unpacker.pieces(data):
            read += len(piece)
            first, *lines = piece.split(b"\n")
            rest.append(first)
            if lines:
                yield b"".join(rest)
                rest = [lines.pop()]
                yield from lines
            if beginning is not None and read > beginning:
                return True
    if line := b"".join(rest):
        yield line
    if problems is not None and unpacker is not None and unpacker.problem:
        problems.append(unpacker.problem)
    return False


def read_records(
    lines: Iterable[bytes], problems: list[str] | None = None
) -> Iterator[Header | Record]:
    """Yield the headers and records of a recording (R-TRACE-06).

    Unknown types of lines are skipped. Lines that are not JSON, such as the last one after a crash,
    are skipped, too, and described in `problems`.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        header = decode_header(line)
        if header is not None:
            yield header
            continue
        try:
            record = decode_record(line)
        except ValueError as exc:
            if problems is not None:
                text = one_line(line[:500].decode("utf-8", "backslashreplace"), 60)
                problems.append(f"line {number} is not a record: {exc}: {text}")
            continue
        if record is not None:
            yield record


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a recording: itself and its later parts."""
    files = [Path(path)]
    while (following := part_path(files[0], len(files) + 1)).exists():
        files.append(following)
    return files


# The recordings of a folder, and of the folders in it.

NO_RECORDINGS = (
    "Expected recordings (*.acp.jsonl, .jsons, .ndjson) in {folder} or in its folders, found none"
)
_LOOKED_AT = 65536  # bytes at the beginning of a file
_LINES = 5  # of which one has a message, or the header
_NAME = re.compile(r"\.(jsonl(\.gz|\.zst)?|jsons|ndjson)$")


def is_recording(name: str) -> bool:
    """Return whether a file of this name is listed as a recording."""
    return _NAME.search(name) is not None


def _recordings_in(names: Iterable[str]) -> list[str]:
    """Return the names of recordings among those of the files in a folder, sorted.

    Later parts of a recording are omitted.
    """
    found = {name for name in names if is_recording(name)}
    parts: set[str] = set()
    for second in found:
        head, infix, ending = second.rpartition(".2.")
        first = Path(f"{head}.{ending}")
        if not infix or first.name not in found:
            continue
        number = 2
        while (part := part_path(first, number).name) in found:
            parts.add(part)
            number += 1
    return sorted(found - parts)


def _is_other_jsonl(item: os.DirEntry[str]) -> bool:
    """Return whether a file `.jsonl` has JSON but no messages, such as the tasks of a fleet."""
    if not item.name.endswith(".jsonl") or item.name.endswith(".acp.jsonl"):
        return False
    try:
        with Path(item.path).open("rb") as file:
            lines = file.read(_LOOKED_AT).split(b"\n")[:-1]
    except OSError:
        return False  # opening it explains why
    if not lines:
        return False
    return next(import_records(lines[:_LINES]), None) is None


def folders_in(folder: Path) -> list[os.DirEntry[str]]:
    """Return the folders in a folder, without hidden ones; raise `TraceError`."""
    try:
        with os.scandir(folder) as entries:
            return [item for item in entries if not item.name.startswith(".") and item.is_dir()]
    except OSError as error:
        raise _cannot_read(folder, error) from None


def names_in(folder: Path) -> list[str]:
    """Return the names of the recordings that are directly in a folder; raise `TraceError`."""
    try:
        with os.scandir(folder) as entries:
            return _recordings_in(
                item.name for item in entries if item.is_file() and not _is_other_jsonl(item)
            )
    except OSError as error:
        raise _cannot_read(folder, error) from None


def all_names(folder: Path, problems: list[str] | None = None) -> Iterator[str]:
    """Yield the names of a folder's recordings, then those of the folders in it as `folder/name`.

    Folders in it that cannot be read are skipped, and described in `problems`. Raise `TraceError`
    if the folder itself cannot be read.
    """
    yield from names_in(folder)
    for one in sorted(folders_in(folder), key=lambda item: item.name):
        try:
            yield from [f"{one.name}/{name}" for name in names_in(Path(one.path))]
        except TraceError as error:
            if problems is not None:
                problems.append(str(error))


def _cannot_read(folder: Path, error: OSError) -> TraceError:
    return TraceError(f"Cannot read the folder {folder}: {error.strerror or error}")


# Recordings that come through a pipe: they are copied, because they are read more than once.


def is_pipe(path: Path) -> bool:
    """Return whether what is at a path can be read only once."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class PipedFile:
    """A private copy of all that comes through a pipe; it is removed with this object.

    Raise `TraceError` if the pipe cannot be read, or the copy cannot be written.
    """

    def __init__(self, pipe: Path) -> None:
        folder = tempfile.TemporaryDirectory(prefix="accord-")
        weakref.finalize(self, folder.cleanup)
        self.pipe: Path = pipe
        self.path: Path = Path(folder.name, pipe.name)
        try:
            with pipe.open("rb") as source, self.path.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        except OSError as error:
            raise TraceError(f"Cannot copy {pipe} to {self.path}: {error.strerror}") from None


# A recording to be read: its files, its header, its records.


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
