"""An index of a recording: the values of every message, without reading the recording again.

Three parts: the lines of a recording, which may be written at the same time; the file `….index`
next to it, from which an index is read; and the index.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, BinaryIO

import msgspec
from msgspec import Struct

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord_trace.columns import NONE, Columns, Route, kind_and_flags
from accord_trace.importing import Importer
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
from accord_trace.trace_file import TraceError, TraceReplaced, Unpacker, part_path, unpacker_of

# The lines of a recording in Accord's format, which may be written at the same time.

_MAX_HEADER = 1_000_000  # bytes
_BLOCK = 1024 * 1024


class Part(Struct):
    """A file of the recording, and where it begins in all of them as if they were one."""

    path: Path
    start: int


class Source:
    """The files themselves: uncompressed, and in Accord's format.

    Positions count the bytes of all files as if they were one. Raise `TraceError` if a file cannot
    be read.
    """

    def __init__(self, files: list[Path]) -> None:
        self.files: list[Path] = files
        self.problems: list[str] = []
        self.parts: list[Part] = []
        self.position: int = 0  # up to which it was read
        self._open: list[BinaryIO] = []
        self._lock = threading.Lock()
        self.next_part()

    def read(self, limit: int) -> bytes:
        """Return at most `limit` of the next bytes of this part; nothing at its present end."""
        return self.at(self.position, limit, go_on=True)

    def at(self, position: int, length: int, *, go_on: bool = False) -> bytes:
        """Return the bytes at a position, at most to the end of the part."""
        part = self.part_of(position)
        try:
            with self._lock:
                file = self._open[part]
                file.seek(position - self.parts[part].start)
                data = file.read(length)
        except (OSError, ValueError) as exc:
            raise TraceError(f"Cannot read {self.parts[part].path}: {exc}") from None
        if go_on:
            self.position = position + len(data)
        return data

    def part_of(self, position: int) -> int:
        """Return the number of the part that has a position, from 0 on."""
        at = len(self.parts) - 1
        while self.parts[at].start > position:
            at -= 1
        return at

    def next_part(self) -> bool:
        """Go on to the next part at the end of this one; return False if there is none yet."""
        number = len(self.parts)
        if number < len(self.files):
            path = self.files[number]
        else:
            path = part_path(self.files[0], number + 1)
            if not path.exists():
                return False
            self.files.append(path)
        try:
            self._open.append(path.open("rb", buffering=0))
        except OSError as exc:
            raise TraceError(f"Cannot read {path}: {exc.strerror}") from None
        self.parts.append(Part(path, self.position))
        return True

    def was_replaced(self) -> bool:
        """Return whether the file is another one, or is shorter than what was read of it."""
        if os.fstat(self._open[-1].fileno()).st_size < self.position - self.parts[-1].start:
            return True
        try:
            return not os.path.samestat(self.parts[0].path.stat(), os.fstat(self._open[0].fileno()))
        except OSError:  # it was removed or renamed
            return False

    def reset(self) -> None:
        """Begin again at the first part."""
        for file in self._open[1:]:
            file.close()
        del self._open[1:], self.parts[1:]
        self.position = 0

    def close(self) -> None:
        """Close the files."""
        for file in self._open:
            file.close()


class Copy:
    """A compressed recording, or one of another program, as a temporary file in Accord's format.

    The file is private, written while the recording is read, and removed by `close`.
    """

    def __init__(self, files: list[Path], *, first: Direction = "to_agent") -> None:
        self.files: list[Path] = files
        self.position: int = 0
        self._problems: list[str] = []
        self._source = Source(files)
        self._importer = Importer(self._problems, first, with_damaged=True)
        self._unpacker: Unpacker | None = None
        self._rest = b""
        self._folder = tempfile.TemporaryDirectory(prefix="accord-")
        path = Path(self._folder.name, "copy.acp.jsonl")
        self._file: IO[bytes] = path.open("w+b", buffering=0)
        self.parts: list[Part] = [Part(path, 0)]
        self._lock = threading.Lock()

    @property
    def problems(self) -> list[str]:
        """Descriptions of what was skipped or is missing, also at the present end."""
        found = [*self._problems]
        if self._rest.strip():
            text = one_line(self._rest[:500].decode("utf-8", "backslashreplace"), 60)
            found.append(f"the last line is incomplete: {text}")
        if self._unpacker is not None and self._unpacker.problem:
            found.append(self._unpacker.problem)
        return found

    def read(self, limit: int) -> bytes:
        """Return about `limit` of the next bytes; nothing at the present end of the recording."""
        while True:
            data = self._source.read(min(limit, _BLOCK))
            if data:
                lines = self._lines(data)
            elif self._source.next_part():
                if self._unpacker is not None and self._unpacker.problem:
                    self._problems.append(self._unpacker.problem)
                self._unpacker = None
                lines, self._rest = [self._rest], b""
            else:
                lines, self._rest = (
                    ([self._rest], b"") if _is_whole(self._rest) else ([], self._rest)
                )
                if not lines:
                    return b""
            if copied := b"".join(map(self._copied, lines)):
                with self._lock:
                    self._file.seek(self.position)
                    self._file.write(copied)
                self.position += len(copied)
                return copied

    def at(self, position: int, length: int) -> bytes:
        """Return the bytes at a position."""
        with self._lock:
            self._file.seek(position)
            return self._file.read(length)

    def part_of(self, position: int) -> int:
        """Return 0: all parts are copied to one file."""
        return 0

    def next_part(self) -> bool:
        """Return False: all parts are copied to one file."""
        return False

    def was_replaced(self) -> bool:
        """Return whether the file is another one, or is shorter than what was read of it."""
        return self._source.was_replaced()

    def close(self) -> None:
        """Close the files, and remove the copy."""
        self._source.close()
        self._file.close()
        self._folder.cleanup()

    def _lines(self, data: bytes) -> list[bytes]:
        if self._unpacker is None:
            self._unpacker = unpacker_of(data, self.files[0])
        lines: list[bytes] = []
        for piece in self._unpacker.pieces(data):
            whole = (self._rest + piece).split(b"\n")
            self._rest = whole.pop()
            lines += whole
        return lines

    def _copied(self, line: bytes) -> bytes:
        """Return the lines in Accord's format for one line."""
        if line.startswith(b'{"type":') and (b',"dir":' in line or decode_header(line) is not None):
            return line + b"\n"
        return b"".join(_encoded(item) + b"\n" for item in self._importer.items(line))


def open_source(files: list[Path], *, first: Direction = "to_agent") -> Source | Copy:
    """Return the lines of a recording; `first` is as for `open_trace`."""
    return Source(files) if is_own_format(files[0]) else Copy(files, first=first)


def is_own_format(path: Path) -> bool:
    """Return whether a file is in Accord's format and uncompressed; raise `TraceError`."""
    try:
        with path.open("rb") as file:
            return decode_header(file.readline(_MAX_HEADER)) is not None
    except OSError as exc:
        raise TraceError(f"Cannot read {path}: {exc.strerror}") from None


def _is_whole(rest: bytes) -> bool:
    try:
        lenient_json.loads(rest)
    except lenient_json.NotJson:
        return False
    return True


def _encoded(item: Header | Record) -> bytes:
    fields = {"type": "header"} if isinstance(item, Header) else {}
    try:
        if not fields:
            return msgspec.json.encode(item)
    except (UnicodeEncodeError, ValueError):
        pass  # a lone surrogate
    fields |= msgspec.to_builtins(item, builtin_types=(msgspec.Raw,))
    return lenient_json.dumps(fields)


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
