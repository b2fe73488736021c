"""An index of a recording: the values of every message, without reading the recording again."""

from __future__ import annotations

import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from accord.text.excerpt import one_line
from accord_trace.columns import NONE, Columns, Route, kind_and_flags
from accord_trace.records import (
    Direction,
    Header,
    Kind,
    Record,
    component_place,
    damaged_record,
    decode_header,
    decode_record,
)
from accord_trace.selection import Filter, Selection
from accord_trace.source import Source, open_source
from accord_trace.trace_file import TraceError, TraceReplaced

# The file `….index` next to a recording, from which its index is read.

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


_BLOCK = 1024 * 1024
_SAVED_BYTES = 8 * 1024 * 1024  # from this size on, an index is saved
_HEADER_BYTES = 1024 * 1024
_HEAD_BYTES = 512
# As Accord writes it: other lines are decoded.
_ID = re.compile(
    rb'\{"type":"re[^"]*","ts":[^"]*(?:"(?:protocol|from|to)":"[^"\\]*",){2,3}"id":(-?\d+|"[^"\\]*"),'
)


class MessageRow(Struct, frozen=True, kw_only=True):
    """A message in the index; numbers count from 0.

    `ts` is in seconds since the start, `bytes` the size of the frame. A response has the method and
    the session of its request. `pair` is the number of its response or request, `latency_s` the
    time between them. `id` is JSON text.
    """

    number: int
    ts: float
    kind: Kind
    direction: Direction
    sender: str
    receiver: str
    conn: str
    method: str
    session: str | None
    id: str
    bytes: int
    is_error: bool
    pair: int | None
    latency_s: float | None


class MessageIndex:
    """The messages of a recording, which may be written at the same time.

    `files` are the file and its later parts; parts that appear later are found. The index grows
    when `advance` is called. It takes about 40 bytes of memory for each message, and is kept in the
    file `….index` next to a large recording, with mode 0600. A recording that is compressed, or
    that another program has written, is copied to a temporary file in Accord's format while it is
    read; it has no such file. `first` is as for `open_trace`. Raise `TraceError` if the recording
    cannot be read.

    A context manager, which closes the files. One thread may call `advance` while another one calls
    the other methods.
    """

    def __init__(self, files: Sequence[Path], *, first: Direction = "to_agent") -> None:
        self.columns: Columns = Columns()
        self._source = open_source(list(files), first=first)
        self._rest = b""  # of a line that is incomplete
        self._end = 0  # up to which lines were added
        self._saved_end = 0
        if isinstance(self._source, Source):
            self._load(self._source)

    def __len__(self) -> int:
        return len(self.columns)

    def __enter__(self) -> MessageIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def files(self) -> list[Path]:
        """The files of the recording."""
        return self._source.files

    @property
    def size(self) -> int:
        """The bytes that are indexed, uncompressed."""
        return self._end

    @property
    def problems(self) -> list[str]:
        """Descriptions of the lines that were skipped, and of a last one that is incomplete."""
        found = [*self.columns.problems, *self._source.problems]
        if self._rest.strip():
            text = one_line(self._rest[:500].decode("utf-8", "backslashreplace"), 60)
            found.append(f"the last line is incomplete: {text}")
        return found

    @property
    def header(self) -> Header:
        """The header of the recording; an empty one if it has none."""
        line = self._source.at(0, _HEADER_BYTES).partition(b"\n")[0]
        return decode_header(line) or Header()

    def close(self) -> None:
        """Save the index if much was added to it, and close the files."""
        if self._end - self._saved_end >= _SAVED_BYTES:
            self.save()
        self._source.close()

    def save(self) -> None:
        """Save the index next to the recording, if its folder can be written."""
        if isinstance(self._source, Source):
            with suppress(OSError):  # the index is used once
                save_index(self._source, self.columns, self._end)
                self._saved_end = self._end

    def advance(self, limit_bytes: int = 8 * _BLOCK) -> bool:
        """Index about so many more bytes; return whether the end was reached.

        Raise `TraceError` if the recording cannot be read, has another version of the format, or
        was replaced.
        """
        while limit_bytes > 0:
            data = self._source.read(_BLOCK)
            if data:
                limit_bytes -= len(data)
                lines = (self._rest + data).split(b"\n") if self._rest else data.split(b"\n")
                self._rest = lines.pop()
                if not self._end and lines:
                    decode_header(lines[0])  # raises for another version of the format
                self._end = self.columns.add_lines(lines, self._end)
                continue
            # A part that another one follows is complete, also if it was cut.
            is_last = not self._source.next_part()
            if self._rest and (not is_last or _is_record(self._rest)):
                self.columns.add_lines([self._rest], self._end)
                self._end += len(self._rest)
                self._rest = b""
            if is_last:
                if self._source.was_replaced():
                    raise TraceReplaced(f"{self.files[0]} was replaced while it was read")
                return True
        return False

    def row(self, number: int) -> MessageRow:
        """Return a message's values; raise `IndexError` if there is none with this number."""
        columns = self.columns
        kind, direction, is_error = kind_and_flags(columns.flags[number])
        route = columns.route_names[columns.routes[number]]
        pair = columns.pairs[number]
        ts = columns.times[number]
        return MessageRow(
            number=number,
            ts=ts,
            kind=kind,
            direction=direction,
            sender=route.sender,
            receiver=route.receiver,
            conn=route.conn,
            method=columns.method_names[columns.methods[number]],
            session=columns.session_names[columns.sessions[number]],
            id=self._id(number) if kind in ("request", "response") else "",
            bytes=columns.sizes[number],
            is_error=is_error,
            pair=None if pair == NONE else pair,
            latency_s=None if pair == NONE else abs(ts - columns.times[pair]),
        )

    def record(self, number: int) -> Record:
        """Return a message; raise `TraceError` if the recording was changed.

        A line that begins as a record, but is damaged after that, is a message of neither side.
        """
        line = self.line(number)
        try:
            record = decode_record(line)
        except ValueError:
            _, direction, _ = kind_and_flags(self.columns.flags[number])
            record = damaged_record(line, ts=self.columns.times[number], direction=direction)
        if record is None:
            place = self._source.parts[self._source.part_of(self.columns.offsets[number])].path
            raise TraceError(f"{place} was changed: message {number} is not at its place")
        return record

    def text(self, number: int) -> str:
        """Return the frame of a message as text; bytes that are not UTF-8 are replaced."""
        return self.record(number).frame.decode("utf-8", "replace")

    def line(self, number: int) -> bytes:
        """Return the line of a message, without its line end."""
        return self.lines(number, number + 1).partition(b"\n")[0]

    def lines(self, first: int, end: int) -> bytes:
        """Return the lines of messages that follow each other in one part, and what is between."""
        offsets = self.columns.offsets
        stop = offsets[end] if end < len(offsets) else self._end
        return self._source.at(offsets[first], stop - offsets[first])

    @property
    def paths(self) -> list[Path]:
        """The files that have the lines: for some recordings, a copy."""
        return [part.path for part in self._source.parts]

    def place_of(self, number: int) -> tuple[int, int]:
        """Return in which of `paths` a message is, and at which byte."""
        offset = self.columns.offsets[number]
        part = self._source.part_of(offset)
        return part, offset - self._source.parts[part].start

    def part_end(self, number: int) -> int:
        """Return the position at which the part of a message ends, or has been indexed up to."""
        following = self._source.part_of(self.columns.offsets[number]) + 1
        parts = self._source.parts
        return parts[following].start if following < len(parts) else self._end

    def select(self, wanted: Filter) -> array[int]:
        """Return the numbers of the selected messages; raise `TraceError` for a bad JSONPath."""
        selection = self.selection(wanted)
        while not selection.advance():
            pass
        return selection.rows

    def selection(self, wanted: Filter) -> Selection:
        """Return a selection that is made step by step, and that grows with the index."""
        return Selection(self, wanted)

    def methods(self) -> dict[str, int]:
        """Return the number of messages of each method; responses are those of their requests."""
        names = self.columns.method_names
        counts = Counter(self.columns.methods)
        return {name: count for at, count in counts.items() if (name := names[at])}

    def sessions(self) -> dict[str, int]:
        """Return the number of messages of each session."""
        names = self.columns.session_names
        counts = Counter(self.columns.sessions)
        return {name: count for at, count in counts.items() if (name := names[at]) is not None}

    def components(self) -> list[str]:
        """Return the names of the components, from the client to the agent."""
        names = {
            name for route in self.columns.route_names for name in (route.sender, route.receiver)
        }
        return sorted(filter(None, names), key=component_place)

    def _id(self, number: int) -> str:
        """Return the id from the beginning of the line; if that is not enough, decode it."""
        head = self._source.at(self.columns.offsets[number], _HEAD_BYTES)
        found = _ID.match(head)
        return found[1].decode("utf-8", "replace") if found else self.record(number).id_text

    def _load(self, source: Source) -> None:
        self._end = self._saved_end = load_index(source, self.columns)
        if self._end == 0:
            source.reset()


def _is_record(line: bytes) -> bool:
    try:
        return decode_record(line) is not None
    except ValueError:
        return False
