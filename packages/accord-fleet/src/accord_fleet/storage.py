"""Files in folders of this machine and at addresses of fsspec, such as `s3://bucket/run`.

A dataset is in a `Storage`, which `open_storage` opens: every write is durable and whole, and only
the user can read a folder. fsspec is imported for addresses only. The errors of datasets are here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from accord.text.excerpt import one_line
from accord_fleet.types import FleetError


class DatasetError(FleetError):
    """A dataset cannot be used; the message has its address and the reason."""


class DatasetInUse(DatasetError):
    """Another run writes this dataset; the message names its process, machine and start.

    `until` is when its lease ends, in seconds since 1970; None without a lease.
    """

    def __init__(self, message: str, until: float | None = None) -> None:
        super().__init__(message)
        self.until: float | None = until


class TasksChanged(DatasetError):
    """The tasks are not those with which the run began."""


class DatasetWriteFailed(DatasetError):
    """A result or a recording could not be stored, for example because the disk is full.

    Everything that was stored before is kept. `os_error` has the error of the system.
    """

    def __init__(self, message: str, os_error: OSError) -> None:
        super().__init__(message)
        self.os_error: OSError = os_error


# Single files at addresses.


def is_address(path: str) -> bool:
    """Return whether a text is an address instead of a path of this machine."""
    return "://" in path


def open_address(address: str) -> IO[bytes]:
    """Open a file for reading; raise `OSError` that says why it cannot be opened."""
    try:
        return cast("IO[bytes]", _fsspec().open(address, "rb").open())
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "it does not exist", address) from error
    except OSError:
        raise
    except Exception as error:  # the library of a store is missing, or raises what it likes
        raise OSError(one_line(str(error), 500)) from error


def _fsspec() -> Any:
    try:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]  # it needs a third of a second
    except ImportError:
        raise OSError("addresses need the extra `fleet` (fsspec)") from None
    return fsspec


PRIVATE_FILE = 0o600
_PUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)

_UNFINISHED = ".tmp"
"""End of the names of files that are being written; their names begin with a dot."""


class FolderStorage:
    """A folder of this machine: writes to a temporary name, flushes to the disk, and renames."""

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


_BLOCK = 8 * 2**20
_WITH_BUCKETS = {"s3", "gs", "az", "abfs", "oss"}


class FsspecStorage:
    """An address of fsspec: puts whole objects, which object stores do atomically."""

    def __init__(self, address: str) -> None:
        self.address: str = address
        self.folder: None = None
        try:
            self._files, self._root = _fsspec().core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise DatasetError(f"{address}: {error}") from error
        self._root = self._root.rstrip("/")
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._has_buckets = not protocols.isdisjoint(_WITH_BUCKETS)

    def read(self, name: str) -> bytes:
        """Return the contents of an object; raise `FileNotFoundError` if it does not exist."""
        with _os_errors():
            return self._files.cat_file(self._path(name))

    def open(self, name: str) -> BinaryIO:
        """Open an object for reading; raise `FileNotFoundError` if it does not exist."""
        with _os_errors():
            return self._files.open(self._path(name), "rb")

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the objects in a folder; empty if it does not exist."""
        path = self._path(folder)
        self._files.invalidate_cache()
        try:
            with _os_errors():
                found = self._files.ls(path, detail=False)
        except FileNotFoundError:
            return []
        names = (str(entry).rstrip("/").rpartition("/")[2] for entry in found)
        return sorted(name for name in names if name and name[0] != ".")

    def write(self, name: str, data: Any) -> None:
        """Put an object, replacing it."""
        content = bytes(data)
        self._put(name, lambda path: self._files.pipe_file(path, content))

    def put(self, name: str, data: bytes) -> None:
        """Put an object, replacing it."""
        self.write(name, data)

    def write_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Put an object from its pieces, replacing it."""
        file = self._put(name, lambda path: self._files.open(path, "wb", block_size=_BLOCK))
        try:
            with _os_errors():
                for piece in pieces:
                    file.write(piece)
                file.close()
        except BaseException:
            with contextlib.suppress(Exception):
                file.discard()
            raise

    def create(self, name: str, data: bytes) -> None:
        """Put a new object; raise `FileExistsError` if it exists.

        S3 and other stores with conditional puts decide this themselves. For other stores fsspec
        looks first, and two machines may both succeed within milliseconds.
        """
        try:
            self._put(name, lambda path: self._files.pipe_file(path, data, mode="create"))
        except FileExistsError:
            raise
        except OSError as error:
            if "precondition" in str(error).lower().replace("-", ""):
                raise FileExistsError(name) from error
            raise

    def move_in(self, source: Path, name: str) -> None:
        """Upload a file of this machine and remove it."""
        self._put(name, lambda path: self._files.put_file(str(source), path))
        source.unlink()

    def remove(self, name: str) -> None:
        """Remove an object, if it exists."""
        with contextlib.suppress(FileNotFoundError), _os_errors():
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _put(self, name: str, put: Callable[[str], Any]) -> Any:
        path = self._path(name)
        try:
            with _os_errors():
                return put(path)
        except FileNotFoundError:
            # s3fs would create a bucket whose name is misspelled.
            if self._has_buckets:
                raise
            with _os_errors():
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
                return put(path)


@contextlib.contextmanager
def _os_errors() -> Generator[None]:
    """Raise the errors of a store's library as `OSError`, as fsspec itself does for most."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error


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
    return FsspecStorage(text)
