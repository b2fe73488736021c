"""An index next to a recording: finds messages by number, method and session without reading it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Struct

from accord.trace.filtering import Filter, Selected, fits, method_fits
from accord.trace.pairing import Answered
from accord.trace.reading import TraceError
from accord.trace.records import Record, decode_header, decode_record
from accord.trace.trace import Trace

__all__ = ("TraceIndex", "can_be_indexed", "open_index")

_VERSION = 1
_NONE = 0xFFFFFFFF  # no request
_MAX_HEADER = 1_000_000  # bytes


class _Head(Struct):
    """The beginning of the file: what was indexed, and the names of the lists that follow."""

    version: int
    files: list[tuple[str, int, int]]  # name, size, time of the last change in nanoseconds
    methods: list[tuple[str, int]]  # with the number of their messages
    sessions: list[tuple[str, int]]
    errors: int
    count: int


class TraceIndex:
    """Where each message of a recording is; numbers count from 1, as in `Selected`.

    `methods` and `sessions` have the numbers of the messages of each; responses are those of
    their requests. `errors` are error responses and frames that are not messages.
    """

    def __init__(self, files: list[Path]) -> None:
        self.files: list[Path] = files
        self.methods: dict[str, array[int]] = {}
        self.sessions: dict[str, array[int]] = {}
        self.errors: array[int] = array("I")
        # By number - 1: the position in the files, as if they were one, and the request.
        self._offsets: array[int] = array("Q")
        self._requests: array[int] = array("I")
        self._starts: list[int] = []  # of the files
        self._open: dict[int, BinaryIO] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def __enter__(self) -> TraceIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files of the recording."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def record(self, number: int) -> Record:
        """Return a message; raise `TraceError` if the recording has been changed."""
        position = self._offsets[number - 1]
        part = max(at for at, start in enumerate(self._starts) if start <= position)
        if part not in self._open:
            self._open[part] = self.files[part].open("rb")
        file = self._open[part]
        file.seek(position - self._starts[part])
        try:
            record = decode_record(file.readline())
        except ValueError:
            record = None
        if record is None:
            raise TraceError(
                f"{self.files[part]} was changed: message {number} is not at its place"
            )
        return record

    def select(self, wanted: Filter) -> Iterator[Selected]:
        """Yield the selected messages, in order; of other methods and sessions none are read."""
        for number in self._candidates(wanted):
            record = self.record(number)
            request_number = self._requests[number - 1]
            answered = None
            if request_number != _NONE:
                request = self.record(request_number)
                method = "" if request.method is UNSET else request.method
                answered = Answered(method, max(record.ts - request.ts, 0.0), request)
            selected = Selected(number, record, answered)
            if fits(selected, wanted):
                yield selected

    def _candidates(self, wanted: Filter) -> Iterator[int]:
        chosen: list[set[int]] = []
        if wanted.methods:
            names = [name for name in self.methods if method_fits(name, wanted)]
            chosen.append({number for name in names for number in self.methods[name]})
        if wanted.sessions:
            known = [name for name in wanted.sessions if name in self.sessions]
            chosen.append({number for name in known for number in self.sessions[name]})
        if wanted.errors:
            chosen.append(set(self.errors))
        if not chosen:
            return iter(range(1, len(self) + 1))
        return iter(sorted(chosen[0].intersection(*chosen[1:])))

    # Building, and the file.

    def build(self) -> None:
        """Read the recording once."""
        waiting: dict[tuple[str, str, str, bytes], int] = {}
        names: dict[int, tuple[str, str | None]] = {}  # of requests that wait
        self._set_starts()
        for file, start in zip(self.files, self._starts, strict=True):
            for position, record in _located(file):
                self._offsets.append(start + position)
                number = len(self._offsets)
                method = "" if record.method is UNSET else record.method
                session, request = record.session, _NONE
                if record.id is not UNSET:
                    text = bytes(record.id)
                    if record.type == "request":
                        waiting[record.conn, record.sender, record.receiver, text] = number
                        names[number] = (method, session)
                    else:
                        key = (record.conn, record.receiver, record.sender, text)
                        request = waiting.pop(key, _NONE)
                        if request != _NONE:
                            method, asked = names.pop(request)
                            session = session or asked
                self._requests.append(request)
                self.methods.setdefault(method, array("I")).append(number)
                if session is not None:
                    self.sessions.setdefault(session, array("I")).append(number)
                if record.is_error or record.type == "invalid":
                    self.errors.append(number)

    def save(self, path: Path) -> None:
        """Write the index: a private file that replaces the old one."""
        head = _Head(
            _VERSION,
            _state(self.files),
            [(name, len(numbers)) for name, numbers in self.methods.items()],
            [(name, len(numbers)) for name, numbers in self.sessions.items()],
            len(self.errors),
            len(self),
        )
        text = msgspec.msgpack.encode(head)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for numbers in self._arrays():
                file.write(memoryview(numbers))
        temporary.replace(path)

    def load(self, path: Path) -> bool:
        """Read the index; return False if it is missing, incomplete, or of other files."""
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                if size > path.stat().st_size:
                    return False
                head = msgspec.msgpack.decode(file.read(size), type=_Head)
                if head.version != _VERSION or head.files != _state(self.files):
                    return False
                self._offsets.fromfile(file, head.count)
                self._requests.fromfile(file, head.count)
                self.errors.fromfile(file, head.errors)
                for name, count in head.methods:
                    self.methods[name] = array("I")
                    self.methods[name].fromfile(file, count)
                for name, count in head.sessions:
                    self.sessions[name] = array("I")
                    self.sessions[name].fromfile(file, count)
        except (OSError, EOFError, MemoryError, OverflowError, msgspec.DecodeError):
            return False
        self._set_starts()
        return True

    def _arrays(self) -> list[array[int]]:
        lists = (*self.methods.values(), *self.sessions.values())
        return [self._offsets, self._requests, self.errors, *lists]

    def _set_starts(self) -> None:
        sizes = [size for _, size, _ in _state(self.files)]
        self._starts = [0, *accumulate(sizes)][:-1]


def open_index(trace: Trace) -> TraceIndex:
    """Return the index of a recording: the file `….index` next to it, or a new one.

    A new one is saved if the folder can be written. Raise `TraceError` if it cannot be read, or
    `can_be_indexed` returns False.
    """
    if not can_be_indexed(trace):
        raise TraceError(f"{trace.files[0]}: only uncompressed .acp.jsonl can be indexed")
    path = trace.files[0].with_name(f"{trace.files[0].name}.index")
    try:
        index = TraceIndex(trace.files)
        if index.load(path):
            return index
        index = TraceIndex(trace.files)
        index.build()
    except OSError as exc:
        raise TraceError(f"Cannot read {trace.files[0]}: {exc.strerror}") from None
    with suppress(OSError):  # a folder that cannot be written: the index is used once
        index.save(path)
    return index


def can_be_indexed(trace: Trace) -> bool:
    """Return whether a recording is in Accord's own format and uncompressed."""
    try:
        with trace.files[0].open("rb") as file:
            return decode_header(file.readline(_MAX_HEADER)) is not None
    except OSError:
        return False


def _state(files: list[Path]) -> list[tuple[str, int, int]]:
    found = [(file.name, file.stat()) for file in files]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]


def _located(file: Path) -> Iterator[tuple[int, Record]]:
    """Yield the records of a file with their positions."""
    position = 0
    with file.open("rb") as lines:
        for line in lines:
            try:
                record = decode_record(line)
            except ValueError:
                record = None
            if record is not None:
                yield position, record
            position += len(line)
