"""Text files inside some directories, and nowhere else, whatever links there are."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Sequence

from accord.errors import AccordError

__all__ = ("OutsideRoots", "Roots", "lines_of")

_FOLLOWS_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_OPEN_BINARY = getattr(os, "O_BINARY", 0)
# A named pipe would wait for its other end.
_WAITS_FOR_NOBODY = getattr(os, "O_NONBLOCK", 0)
_WALKS = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd


class OutsideRoots(AccordError, PermissionError):
    """A path leads out of the directories that files may be in."""


class Roots:
    """Directories that files are read and written in; relative paths belong to the first.

    A path is resolved first, links and all, and then opened step by step without following
    any link: what is moved in between makes it fail, not escape (R-DIR-10). The functions block.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._base = paths[0]
        self._roots = [os.path.realpath(path) for path in paths]

    def absolute(self, path: str) -> str:
        """Return the path as it is named, absolute and without dots (R-DIR-09)."""
        return os.path.normpath(os.path.join(self._base, path))  # noqa: PTH118  # text, not a file

    def resolve(self, path: str) -> str:
        """Return where a path leads; raise `OutsideRoots`."""
        real = os.path.realpath(self.absolute(path))
        self._root_of(real, path)
        return real

    def read(self, path: str) -> str:
        """Return the text of a file, which is UTF-8, its line ends as they are."""
        fd = self._open(path, os.O_RDONLY, parents=False)
        with os.fdopen(fd, "r", encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        """Replace the text of a file; it is created if missing, with its parents (A-49)."""
        data = text.encode("utf-8")
        fd = self._open(path, os.O_WRONLY | os.O_CREAT, parents=True)
        with os.fdopen(fd, "wb") as file:
            file.truncate(0)
            file.write(data)

    def _root_of(self, real: str, path: str) -> str:
        for root in self._roots:
            if real == root or real.startswith(root.rstrip(os.sep) + os.sep):
                return root
        raise OutsideRoots(f"{path} is outside of the session's directories")

    def _open(self, path: str, flags: int, *, parents: bool) -> int:
        real = os.path.realpath(self.absolute(path))
        root = self._root_of(real, path)
        flags |= _FOLLOWS_NO_LINK | _OPEN_BINARY | _WAITS_FOR_NOBODY
        if _WALKS:
            fd = _open_walking(root, os.path.relpath(real, root), flags, parents=parents)
        else:
            fd = self._open_checking(real, flags, path, parents=parents)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(f"{path} is not a file")
        return fd

    def _open_checking(self, real: str, flags: int, path: str, *, parents: bool) -> int:
        if parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120  # a text
        fd = os.open(real, flags, 0o666)
        if os.path.realpath(real) != real:
            os.close(fd)
            raise OutsideRoots(f"{path} was moved while it was opened")
        return fd


def _open_walking(root: str, path: str, flags: int, *, parents: bool) -> int:
    """Open a path below a directory, following no link on the way."""
    if sys.platform == "win32":
        raise NotImplementedError
    step = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    *folders, name = path.split(os.sep)  # noqa: PTH206  # a text, not a file
    here = os.open(root, step)
    try:
        for folder in folders:
            if parents:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            below = os.open(folder, step, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, flags, 0o666, dir_fd=here)
    finally:
        os.close(here)


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Return `limit` lines from `line` on, which counts from 1; beyond the end there are none."""
    if line is None and limit is None:
        return text
    lines = _split(text)
    first = max((line or 1) - 1, 0)
    return "".join(lines[first:] if limit is None else lines[first : first + limit])


def _split(text: str) -> list[str]:
    """Split at line feeds only: other marks are text in most programs."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines
