"""Journals: results are written to them as they arrive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from accord_fleet.dataset.segments import JOURNAL, Segment, journal_name
from accord_fleet.dataset.storage import Storage
from accord_fleet.dataset.storage_folder import PRIVATE_FILE, make_private_folder


class Journal(Protocol):
    """The journal of one segment; used by one thread at a time."""

    bytes: int
    """Bytes of the lines that were committed."""
    rows: int

    def commit(self, lines: list[bytes]) -> None:
        """Write lines so that they survive the end of this process, or none of them.

        Raises `OSError`; later calls may succeed.
        """
        ...

    def sync(self) -> None:
        """Make the lines survive a loss of power."""
        ...

    def close(self) -> Segment:
        """Close the journal and return its segment."""
        ...


def open_journal(storage: Storage, number: int, folder: str = JOURNAL) -> Journal:
    """Return the journal of a new segment, in a folder of the dataset."""
    if storage.folder is not None:
        return FileJournal(storage.folder, number, folder)
    return ObjectJournal(storage, number, folder)


class FileJournal:
    """A file to which lines are appended."""

    def __init__(self, root: Path, number: int, folder: str) -> None:
        self.bytes: int = 0
        self.rows: int = 0
        self._number = number
        self._name = journal_name(number, folder=folder)
        self._is_torn = False
        path = root / self._name
        make_private_folder(path.parent)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file: int = os.open(path, flags, PRIVATE_FILE)

    def commit(self, lines: list[bytes]) -> None:
        """Append lines, or none of them."""
        if self._is_torn:
            os.ftruncate(self._file, self.bytes)
            self._is_torn = False
        data = memoryview(b"".join(lines))
        size = len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except BaseException:
            self._is_torn = True
            raise
        self.bytes += size
        self.rows += len(lines)

    def sync(self) -> None:
        """Flush the file to the disk."""
        os.fsync(self._file)

    def close(self) -> Segment:
        """Flush and close the file."""
        try:
            if self._is_torn:
                os.ftruncate(self._file, self.bytes)
            os.fsync(self._file)
        finally:
            os.close(self._file)
        return Segment(self._number, None, (self._name,))


class ObjectJournal:
    """Objects with the lines of one commit each: object stores cannot append."""

    def __init__(self, storage: Storage, number: int, folder: str) -> None:
        self.bytes: int = 0
        self.rows: int = 0
        self._storage = storage
        self._number = number
        self._folder = folder
        self._names: list[str] = []
        self._may_exist = False
        """Whether the next object was put without an answer; it is replaced."""

    def commit(self, lines: list[bytes]) -> None:
        """Put an object with the lines."""
        data = b"".join(lines)
        name = journal_name(self._number, len(self._names) + 1, self._folder)
        if self._may_exist:
            self._storage.write(name, data)
        else:
            self._may_exist = True
            self._create(name, data)
        self._may_exist = False
        self._names.append(name)
        self.bytes += len(data)
        self.rows += len(lines)

    def _create(self, name: str, data: bytes) -> None:
        try:
            self._storage.create(name, data)
        except FileExistsError:
            # A library that repeats a put after a lost answer gets this for its own object.
            if self._storage.read(name) != data:
                self._may_exist = False
                raise

    def sync(self) -> None:
        """Do nothing: an object that was put is durable."""

    def close(self) -> Segment:
        """Return the segment."""
        return Segment(self._number, None, tuple(self._names))
