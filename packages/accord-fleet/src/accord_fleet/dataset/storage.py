"""Where a dataset is: a folder of this machine, or an address of fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from accord_fleet.dataset.storage_folder import FolderStorage


class Storage(Protocol):
    """Reads and writes files by their names below the address of a dataset."""

    @property
    def address(self) -> str:
        """The address as users write it."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder, if it is on this machine."""
        ...

    def read(self, name: str) -> bytes:
        """Return the contents of a file; raise `FileNotFoundError` if it does not exist."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raise `FileNotFoundError` if it does not exist."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the files in a folder; empty if it does not exist."""
        ...

    def write(self, name: str, data: Any) -> None:
        """Write a whole file durably, or leave it unchanged."""
        ...

    def write_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a whole file durably from its pieces, or leave it unchanged."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write a file that no row names yet, replacing it; a killed process may leave a part."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write a new file durably; raise `FileExistsError` if it exists."""
        ...

    def move_in(self, source: Path, name: str) -> None:
        """Move a file of this machine to `name`, replacing it, and never show a part of it."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...


def open_storage(address: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or an address; raise `DatasetError` if fsspec lacks it."""
    text = os.fspath(address)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return FolderStorage(Path(text).absolute(), text)
    if scheme in {"file", "local"}:
        return FolderStorage(Path(text.partition("://")[2]).absolute(), text)
    # fsspec is imported for its addresses only: it needs a third of a second.
    from accord_fleet.dataset.storage_fsspec import FsspecStorage

    return FsspecStorage(text)
