"""The lines of a recording in Accord's format, which may be written at the same time."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import IO, BinaryIO

import msgspec
from msgspec import Struct

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord_trace.importing import Importer
from accord_trace.records import Direction, Header, Record, decode_header
from accord_trace.trace_file import TraceError, Unpacker, part_path, unpacker_of

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
