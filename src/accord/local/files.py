"""Text files inside some directories, and nowhere else, whatever links there are."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Collection, Sequence

from accord.errors import AccordError

__all__ = ("OutsideRoots", "Roots", "lines_of")

_FOLLOWS_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_OPEN_BINARY = getattr(os, "O_BINARY", 0)
# A named pipe would wait for its other end.
_WAITS_FOR_NOBODY = getattr(os, "O_NONBLOCK", 0)
_WALKS = {os.open, os.mkdir, os.rename, os.rmdir, os.unlink} <= os.supports_dir_fd
# Directories on the way need not be readable.
_ONLY_PASSES = getattr(os, "O_PATH", os.O_RDONLY)


class OutsideRoots(AccordError, PermissionError):
    """A path leads out of the directories that files may be in."""


class Roots:
    """Directories that files are read and written in; relative paths belong to the first.

    A path is resolved first, links and all, and then opened step by step without following
    any link: what is moved in between makes it fail, not escape (R-DIR-10). The functions block.
    """

    def __init__(self, paths: Sequence[str], *, also: Collection[str] = ()) -> None:
        """`also` are real paths elsewhere that are allowed, just they; it may change later."""
        self._base = paths[0]
        self._roots = [os.path.realpath(path) for path in paths]
        self._also = also

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
        with os.fdopen(self.open(path), "r", encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        """Replace the text of a file; it is created if missing, with its parents (A-49)."""
        data = text.encode("utf-8")
        fd = self.open(path, os.O_WRONLY | os.O_CREAT, parents=True)
        with os.fdopen(fd, "wb") as file:
            file.truncate(0)
            file.write(data)

    def open(self, path: str, flags: int = os.O_RDONLY, *, parents: bool = False) -> int:
        """Return a descriptor of a file, to be closed; `parents` makes missing directories."""
        real = os.path.realpath(self.absolute(path))
        root = self._root_of(real, path)
        flags |= _FOLLOWS_NO_LINK | _OPEN_BINARY | _WAITS_FOR_NOBODY
        if _WALKS:
            folder, name = _walk(root, real, parents=parents)
            try:
                fd = os.open(name, flags, 0o666, dir_fd=folder)
            finally:
                os.close(folder)
        else:
            fd = self._open_checking(real, flags, path, parents=parents)
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(fd)
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            raise OSError(errno.EINVAL, "It is not a file", path)
        return fd

    def remove(self, path: str) -> None:
        """Delete a file, a link and not what it leads to, or an empty directory."""
        folder, name = self._entry(path)
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)  # beside a descriptor
        finally:
            if folder is not None:
                os.close(folder)

    def move(self, source: str, target: str) -> None:
        """Rename a file, a link or a directory; what is at the target already stays there.

        The target's parents are made. Raises `FileExistsError` when something is there.
        """
        here, name = self._entry(source)
        there = None
        try:
            os.stat(name, dir_fd=here, follow_symlinks=False)
            there, new_name = self._entry(target, parents=True)
            with contextlib.suppress(FileNotFoundError):
                os.stat(new_name, dir_fd=there, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.rename(name, new_name, src_dir_fd=here, dst_dir_fd=there)  # as above
        finally:
            for folder in (here, there):
                if folder is not None:
                    os.close(folder)

    def _entry(self, path: str, *, parents: bool = False) -> tuple[int | None, str]:
        """Return the directory that an entry is in, and its name there; the entry may be a link.

        Where directories have no descriptors it is None, and the name the real path.
        """
        parent, name = os.path.split(self.absolute(path))
        real = os.path.join(os.path.realpath(parent), name)  # noqa: PTH118  # text, not a file
        if not name or real in self._roots:
            raise OutsideRoots(f"{path} is one of the session's directories itself")
        root = self._root_of(real, path)
        if _WALKS:
            return _walk(root, real, parents=parents)
        if parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120  # as above
        return None, real

    def _root_of(self, real: str, path: str) -> str:
        for root in self._roots:
            if real == root or real.startswith(root.rstrip(os.sep) + os.sep):
                return root
        if real in self._also:
            return os.path.splitdrive(real)[0] + os.sep
        raise OutsideRoots(f"{path} is outside of the session's directories")

    def _open_checking(self, real: str, flags: int, path: str, *, parents: bool) -> int:
        if parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120  # a text
        fd = os.open(real, flags, 0o666)
        if os.path.realpath(real) != real:
            os.close(fd)
            raise OutsideRoots(f"{path} was moved while it was opened")
        return fd


def _walk(root: str, real: str, *, parents: bool) -> tuple[int, str]:
    """Open the directory that a path below another ends in, following no link on the way."""
    if sys.platform == "win32":
        raise NotImplementedError
    step = _ONLY_PASSES | os.O_DIRECTORY | os.O_NOFOLLOW
    *folders, name = os.path.relpath(real, root).split(os.sep)  # noqa: PTH206  # a text, not a file
    here = os.open(root, step)
    try:
        for folder in folders:
            if parents:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            below = os.open(folder, step, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here, name


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
