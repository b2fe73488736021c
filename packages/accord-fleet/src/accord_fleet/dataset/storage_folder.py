"""A dataset in a folder of this machine, which only its user can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

PRIVATE_FILE = 0o600
_PUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)

_UNFINISHED = ".tmp"
"""End of the names of files that are being written; their names begin with a dot."""


class FolderStorage:
    """Writes to a temporary name, flushes to the disk, and renames."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder: Path = folder
        self.address: str = address

    def read(self, name: str) -> bytes:
        """Return the contents of a file; raise `FileNotFoundError` if it does not exist."""
        return (self.folder / name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raise `FileNotFoundError` if it does not exist."""
        return (self.folder / name).open("rb")

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder; empty if it does not exist."""
        try:
            with os.scandir(self.folder / folder) as entries:
                return sorted(entry.name for entry in entries if entry.name[0] != ".")
        except FileNotFoundError:
            return []

    def write(self, name: str, data: Any) -> None:
        """Write a whole file durably, or leave it unchanged."""
        self.write_pieces(name, (data,))

    def write_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a whole file durably from its pieces, or leave it unchanged."""
        unfinished = self._write_unfinished(name, pieces)
        unfinished.replace(self.folder / name)
        _sync_folder(unfinished.parent)

    def put(self, name: str, data: bytes) -> None:
        """Write a file that no row names yet, without a flush; nothing is left if this fails."""
        target = self.folder / name
        try:
            file = os.open(target, _PUT, PRIVATE_FILE)
        except FileNotFoundError:
            self._make_parent(target)
            file = os.open(target, _PUT, PRIVATE_FILE)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file durably; raise `FileExistsError` if it exists."""
        unfinished = self._write_unfinished(name, (data,), f".{secrets.token_hex(4)}")
        try:
            os.link(unfinished, self.folder / name)
        finally:
            unfinished.unlink()
        _sync_folder(unfinished.parent)

    def move_in(self, source: Path, name: str) -> None:
        """Move a file of this machine to `name`, replacing it, and never show a part of it."""
        target = self.folder / name
        source.chmod(PRIVATE_FILE)
        try:
            source.replace(target)
        except FileNotFoundError:
            self._make_parent(target)
            self.move_in_existing(source, target)
        except OSError:
            self.move_in_existing(source, target)

    def move_in_existing(self, source: Path, target: Path) -> None:
        """Move a file into an existing folder, also from another file system."""
        with contextlib.suppress(OSError):
            source.replace(target)
            return
        unfinished = target.with_name(f".{target.name}{_UNFINISHED}")
        try:
            shutil.copyfile(source, unfinished)
            unfinished.chmod(PRIVATE_FILE)
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        source.unlink()

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self.folder / name).unlink(missing_ok=True)

    def _make_parent(self, target: Path) -> None:
        parent = target.parent
        if not parent.is_dir():
            above = [each for each in parent.parents if each.is_relative_to(self.folder)]
            for each in (*reversed(above), parent):
                make_private_folder(each)

    def _write_unfinished(self, name: str, pieces: Iterable[bytes], more: str = "") -> Path:
        target = self.folder / name
        self._make_parent(target)
        unfinished = target.with_name(f".{target.name}{more}{_UNFINISHED}")
        try:
            with open(unfinished, "wb", opener=_open_private) as file:  # opener
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return unfinished


def make_private_folder(folder: Path) -> None:
    """Make a folder that only the user can enter, and those above it with their usual modes.

    The mode of a folder that exists is not changed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a loss of power, where the system can do so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
