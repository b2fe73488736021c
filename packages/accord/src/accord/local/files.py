"""Text files inside some directories only; links cannot lead outside."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Collection, Generator, Sequence

from accord.errors import AccordError
from accord.local.lines import MAX_BYTES, read_lines
from accord.local.replace import create_file, replace_file

_O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_O_BINARY = getattr(os, "O_BINARY", 0)
# A named pipe would wait for its other end.
_O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_HAS_DIR_FD = {os.open, os.mkdir, os.rename, os.rmdir, os.unlink} <= os.supports_dir_fd
# Directories on the way need not be readable.
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_IS_POSIX = os.name == "posix"
# With the NUL at its end. The system refuses longer paths, and `realpath` leaves their links as
# they are.
_PATH_BYTES = os.pathconf("/", "PC_PATH_MAX") if hasattr(os, "pathconf") else 32768


class OutsideRoots(AccordError, PermissionError):
    """A path leads outside of the allowed directories."""


class HardLinked(OutsideRoots):
    """A file has other names (hard links), which may be outside of the allowed directories."""


class Roots:
    """The directories in which files are read and written; relative paths start at the first.

    A path is first resolved with all links, and then opened step by step without following any
    link: if something is moved in between, the call fails and does not escape (R-DIR-10). A file
    with other names (hard links) is refused, because their place is unknown. Text that cannot be
    a path (with a NUL, or too long for the system) raises `OSError`. The functions block.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        also: Collection[str] = (),
        real: Sequence[str] | None = None,
    ) -> None:
        """`also` are single real paths that are allowed, too; the collection may change later.

        `real` are the real paths of the directories if they are known from an earlier time: a
        directory that was replaced by a link since then is not allowed.
        """
        self._base = paths[0]
        self._roots = [real_path(path) for path in paths] if real is None else list(real)
        self._also = also

    def absolute(self, path: str) -> str:
        """Return the path, absolute and without dots, links not resolved (R-DIR-09)."""
        if path[:1] == "/" and _IS_POSIX:
            return os.path.normpath(path)
        return os.path.normpath(os.path.join(self._base, path))  # noqa: PTH118  # text, not a file

    def resolve(self, path: str) -> str:
        """Return the real path of a path; raise `OutsideRoots`."""
        _check_text(path)
        real, status = _real_path(self.absolute(path))
        self._root_of(real, path)
        if status is not None:
            self._refuse_links(status, real, path)
        return real

    def read(
        self,
        path: str,
        line: int | None = None,
        limit: int | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        stop: Callable[[], bool] | None = None,
    ) -> str:
        """Return the text of a UTF-8 file with unchanged line ends.

        `line` counts from 1; the file is read only up to the last of `limit` lines.
        Raises `TooLarge` beyond `max_bytes`, and `InterruptedError` once `stop` returns true.
        """
        fd = self.open(path)
        try:
            data = read_lines(fd, path, line, limit, max_bytes=max_bytes, stop=stop)
        finally:
            os.close(fd)
        return data.decode("utf-8")

    def write(self, path: str, text: str) -> None:
        """Replace the text of a file atomically; create it and its parents if missing (A-49).

        Readers see the old or the new text, also after a crash: see `replace_file`.
        """
        self.replace(path, text.encode("utf-8"))

    def replace(
        self, path: str, data: bytes, *, expected: Callable[[bytes | None], None] | None = None
    ) -> None:
        """Do what `write` does; `expected` gets the old content or None, and may raise."""
        real, root = self._find(path)

        def check(status: os.stat_result) -> None:
            _refuse_others(status, path)
            self._refuse_links(status, real, path)

        with self._folder(real, root, path) as (folder, name):
            replace_file(folder, name, data, check, expected)

    def create(self, path: str, data: bytes) -> None:
        """Create a file atomically, with its parents; raise `FileExistsError` if it exists."""
        real, root = self._find(path)
        with self._folder(real, root, path) as (folder, name):
            create_file(folder, name, data)

    @contextlib.contextmanager
    def _folder(self, real: str, root: str, path: str) -> Generator[tuple[int | None, str]]:
        """Open the directory of a file, creating its parents; yield it and the file's name.

        On systems without directory descriptors it is None, and the name is the real path.
        """
        if not _HAS_DIR_FD:
            self._make_parents(real, path)
            yield None, real
            return
        folder, name = _walk(root, real, parents=True)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def open(self, path: str, flags: int = os.O_RDONLY, *, parents: bool = False) -> int:
        """Return a descriptor of a file, which the caller closes; `parents` creates directories."""
        real, root = self._find(path)
        flags |= _O_NOFOLLOW | _O_BINARY | _O_NONBLOCK
        if _HAS_DIR_FD:
            folder, name = _walk(root, real, parents=parents)
            try:
                fd = os.open(name, flags, 0o666, dir_fd=folder)
            finally:
                os.close(folder)
        else:
            fd = self._open_checking(real, flags, path, parents=parents)
        try:
            status = os.fstat(fd)
            _refuse_others(status, path)
            self._refuse_links(status, real, path)
        except OSError:
            os.close(fd)
            raise
        return fd

    def remove(self, path: str) -> None:
        """Delete a file, a link (not its target) or an empty directory."""
        folder, name = self._entry(path)
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)  # relative to a descriptor
        finally:
            if folder is not None:
                os.close(folder)

    def move(self, source: str, target: str) -> None:
        """Rename a file, a link or a directory; an existing target is not replaced.

        The target's parents are created. Raises `FileExistsError` if the target exists.
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
        """Return the directory of an entry, and its name in it; the entry may be a link.

        On systems without directory descriptors it is None, and the name is the real path.
        """
        _check_text(path)
        parent, name = os.path.split(self.absolute(path))
        real = os.path.join(real_path(parent), name)  # noqa: PTH118  # text, not a file
        if not name or real in self._roots:
            raise OutsideRoots(f"{path} is one of the session's directories itself")
        root = self._root_of(real, path)
        if _HAS_DIR_FD:
            return _walk(root, real, parents=parents)
        if parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)  # noqa: PTH103, PTH120  # as above
        return None, real

    def _find(self, path: str) -> tuple[str, str]:
        """Return the target of a path, and the root that contains it."""
        _check_text(path)
        real = real_path(self.absolute(path))
        return real, self._root_of(real, path)

    def _refuse_links(self, status: os.stat_result, real: str, path: str) -> None:
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and real not in self._also:
            raise _hard_linked(path)

    def _root_of(self, real: str, path: str) -> str:
        for root in self._roots:
            if is_within(root, real):
                return root
        if real in self._also:
            return os.path.splitdrive(real)[0] + os.sep
        raise OutsideRoots(f"{path} is outside of the session's directories")

    def _make_parents(self, real: str, path: str) -> None:
        """Without directory descriptors: create the missing directories, and check again."""
        parent = os.path.dirname(real)  # noqa: PTH120  # a text
        os.makedirs(parent, exist_ok=True)  # noqa: PTH103  # as above
        if os.path.realpath(parent) != parent:
            raise OutsideRoots(f"{path} was moved while it was opened")

    def _open_checking(self, real: str, flags: int, path: str, *, parents: bool) -> int:
        if parents:
            self._make_parents(real, path)
        fd = os.open(real, flags, 0o666)
        if os.path.realpath(real) != real:
            os.close(fd)
            raise OutsideRoots(f"{path} was moved while it was opened")
        return fd


def real_path(path: str) -> str:
    """Return the real path, all links resolved; raise `OSError` for an impossible path."""
    return _real_path(path)[0]


def _real_path(path: str) -> tuple[str, os.stat_result | None]:
    """Return what `real_path` returns, and the status of an existing file or directory."""
    _check_text(path)
    if _IS_POSIX and path[:1] == "/" and path[:2] != "//" and os.path.normpath(path) == path:
        # `os.path.realpath` takes five times as long if there is no link.
        end = 0
        try:
            while True:
                end = path.find("/", end + 1)
                status = os.lstat(path if end < 0 else path[:end])
                if stat.S_ISLNK(status.st_mode):
                    break
                if end < 0:
                    return path, status
        except OSError:  # missing, or in a directory that cannot be searched
            return path, None
    real = os.path.realpath(path)
    _check_text(real)
    try:
        return real, os.lstat(real)
    except OSError:
        return real, None


def _hard_linked(path: str) -> HardLinked:
    return HardLinked(f"{path} has other names (hard links), which may be elsewhere")


def has_further_names(path: str) -> bool:
    """Return whether a file has other names (hard links); their place is unknown."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def is_within(folder: str, path: str) -> bool:
    """Return whether a real path is a real directory or below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _check_text(path: str) -> None:
    if path.isascii() and len(path) < _PATH_BYTES and "\0" not in path:
        return  # most paths
    if "\0" in path:
        raise OSError(errno.EINVAL, "A path must not contain NUL characters", path)
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), path) from None
    if size >= _PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)


def _refuse_others(status: os.stat_result, path: str) -> None:
    """Raise `OSError` unless this is a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is not a file", path)


def _walk(root: str, real: str, *, parents: bool) -> tuple[int, str]:
    """Open the directory at the end of a path below another, without following links."""
    if sys.platform == "win32":
        raise NotImplementedError
    step = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
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
