"""A dataset at an address of fsspec, such as `s3://bucket/run`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable
from errno import EIO
from pathlib import Path
from typing import Any, BinaryIO

import fsspec  # pyright: ignore[reportMissingTypeStubs]

from accord_fleet.dataset.errors import DatasetError

_fsspec: Any = fsspec  # without types
_BLOCK = 8 * 2**20
_WITH_BUCKETS = {"s3", "gs", "az", "abfs", "oss"}


class FsspecStorage:
    """Puts whole objects, which object stores do atomically."""

    def __init__(self, address: str) -> None:
        self.address: str = address
        self.folder: None = None
        try:
            self._files, self._root = _fsspec.core.url_to_fs(address)
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
        raise OSError(EIO, f"{type(error).__name__}: {error}") from error
