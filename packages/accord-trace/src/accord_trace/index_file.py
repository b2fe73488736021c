"""The file `….index` next to a recording, from which its index is read."""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from accord_trace.columns import Columns, Route
from accord_trace.packing import TraceError
from accord_trace.source import Source

_VERSION = 3
_PROBE = 4096  # bytes at the beginning and at the end of each part that are compared


class _File(Struct):
    """A part of the recording: what was indexed of it, and whether it was changed since then."""

    name: str
    size: int  # that was indexed
    changed_ns: int  # when it was changed last
    digest: bytes


class _Head(Struct):
    version: int
    order: str  # of bytes
    files: list[_File]
    count: int
    end: int
    methods: list[str]
    sessions: list[str | None]
    routes: list[Route]
    open: list[tuple[tuple[str, str, str, bytes], int]]
    problems: list[str]


def index_path(recording: Path) -> Path:
    """Return the path of the index of a recording."""
    return recording.with_name(f"{recording.name}.index")


def save_index(source: Source, columns: Columns, end: int) -> None:
    """Write the index: a private file that replaces the old one; raise `OSError`."""
    head = _Head(
        version=_VERSION,
        order=sys.byteorder,
        files=_files(source, end),
        count=len(columns),
        end=end,
        methods=columns.method_names,
        sessions=columns.session_names,
        routes=columns.route_names,
        open=list(columns.open.items()),
        problems=columns.problems,
    )
    text = msgspec.msgpack.encode(head)
    path = index_path(source.files[0])
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for column in columns.arrays:
            file.write(memoryview(column))
    temporary.replace(path)


def load_index(source: Source, columns: Columns) -> int:
    """Fill the columns, and return up to where the recording is indexed.

    Return 0, and leave the columns empty, if there is no index of this recording.
    """
    path = index_path(source.files[0])
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                return 0
            head = msgspec.msgpack.decode(file.read(size), type=_Head)
            if head.version != _VERSION or head.order != sys.byteorder:
                return 0
            if not _is_current(source, head):
                return 0
            for column in columns.arrays:
                column.fromfile(file, head.count)
    except (OSError, EOFError, MemoryError, OverflowError, msgspec.DecodeError, TraceError):
        for column in columns.arrays:
            del column[:]
        return 0
    columns.set_names(head.methods, head.sessions, head.routes)
    columns.open.update(head.open)
    columns.problems += head.problems
    return head.end


def _files(source: Source, end: int) -> list[_File]:
    files: list[_File] = []
    for at, part in enumerate(source.parts):
        is_last = at == len(source.parts) - 1
        size = (end if is_last else source.parts[at + 1].start) - part.start
        status = part.path.stat()
        files.append(_File(part.path.name, size, status.st_mtime_ns, _digest(source, at, size)))
    return files


def _is_current(source: Source, head: _Head) -> bool:
    """Return whether the parts are those that were indexed, or have only become longer."""
    for at, file in enumerate(head.files):
        if at > 0:
            source.position = source.parts[-1].start + head.files[at - 1].size
            if not source.next_part():
                return False
        part = source.parts[at]
        status = part.path.stat()
        if part.path.name != file.name or status.st_size < file.size:
            return False
        is_last = at == len(head.files) - 1
        if status.st_size == file.size and status.st_mtime_ns != file.changed_ns:
            return False
        if status.st_size > file.size and not is_last:
            return False
        if _digest(source, at, file.size) != file.digest:
            return False
    source.position = head.end
    return True


def _digest(source: Source, part: int, size: int) -> bytes:
    start = source.parts[part].start
    first = source.at(start, min(_PROBE, size))
    last = source.at(start + max(size - _PROBE, 0), min(_PROBE, size))
    return blake2b(first + last, digest_size=16).digest()
