"""Reads recordings line by line: gigabytes are never in memory."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO

from accord.text.excerpt import one_line
from accord_trace.packing import TraceError, Unpacker, unpacker_of
from accord_trace.records import Header, Record, decode_header, decode_record
from accord_trace.trace_file import part_path

__all__ = ("TraceError", "lines_in", "lines_of", "read_records", "trace_files")

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
