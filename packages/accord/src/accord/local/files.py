"""Text files inside some directories only; links cannot lead outside.

`Roots` opens, reads and writes them. Reads return some lines and scan no more than needed. Writes
are atomic: readers see the old text or the new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Collection, Generator, Sequence

from accord.errors import AccordError

# Lines of a text.

MAX_BYTES = 16 * 1024 * 1024  # of the lines that one read returns
_MAX_SCANNED = 1024 * 1024 * 1024  # bytes of a file that are looked at for them
_CHUNK = 256 * 1024


class TooLarge(AccordError, OSError):
    """More text was requested than one read returns; use `line` and `limit`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EFBIG, reason, path)


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Return `limit` lines, starting at `line`, which counts from 1; empty beyond the end.

    Only a line feed ends a line: other marks are text in most programs.
    """
    skipped = max((line or 1) - 1, 0)
    parts = text.split("\n", skipped)
    if len(parts) <= skipped:
        return ""
    rest = parts[-1]
    if limit is None:
        return rest
    lines = rest.split("\n", limit)
    return rest if len(lines) <= limit else "".join(f"{part}\n" for part in lines[:limit])


def read_lines(
    fd: int,
    path: str,
    line: int | None,
    limit: int | None,
    *,
    max_bytes: int = MAX_BYTES,
    stop: Callable[[], bool] | None = None,
) -> bytes:
    """Return what `lines_of` returns, from an open file, read only up to the last line.

    Raises `TooLarge` beyond `max_bytes`, and `InterruptedError` once `stop` returns true.
    """
    kept = bytearray()
    skipped = max((line or 1) - 1, 0)
    scanned = 0
    while limit != 0 and (chunk := os.read(fd, _CHUNK)):
        if stop is not None and stop():
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR), path)
        scanned += len(chunk)
        if scanned > _MAX_SCANNED:
            raise TooLarge(path, f"Line {line} is beyond the first {_MAX_SCANNED >> 20} MiB")
        ends = chunk.count(b"\n") if skipped else 0
        if ends < skipped:
            skipped -= ends
            continue
        begin = _after(chunk, skipped, 0)
        skipped = 0
        end = len(chunk)
        if limit is not None:
            ends = chunk.count(b"\n", begin)
            if ends >= limit:
                end, ends = _after(chunk, limit, begin), limit
            limit -= ends
        kept += memoryview(chunk)[begin:end]
        if len(kept) > max_bytes:
            raise TooLarge(path, f"More than {max_bytes >> 20} MiB in one read")
    return bytes(kept)


def _after(chunk: bytes, lines: int, begin: int) -> int:
    """Return the position after this number of line ends, which must exist."""
    for _ in range(lines):
        begin = chunk.index(b"\n", begin) + 1
    return begin


# Atomic writes.

_FLAGS = (
    os.O_WRONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
# The folder accepts no new file, or the old one cannot be replaced: for example a mount point, or a
# file that another program holds open on Windows.
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_ONLY_IN_PLACE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV}


def create_file(folder: int | None, name: str, data: bytes) -> None:
    """Create a file with this content atomically; raise `FileExistsError` if it exists."""
    temporary = _temporary(folder, name, data, None)
    try:
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    except NotImplementedError:
        pass
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
    # A file system without hard links.
    fd = os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        _write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(
    folder: int | None,
    name: str,
    data: bytes,
    check: Callable[[os.stat_result], None],
    expected: Callable[[bytes | None], None] | None = None,
) -> None:
    """Replace the content of file `name` in a directory, or create it; follow no link.

    The new content is written to a second file next to it, flushed to the disk (`fsync`) and then
    renamed: after a crash, a power failure or on a full disk the old content is complete, or the
    new. The directory itself is not flushed, so a power failure may bring the old content back.
    Mode, owner and extended attributes stay. If no file can be created in the directory, if the
    owner would change, or if the file has other names (hard links), the content is written in
    place: after an error the old content is restored, after a crash it is not. `check` gets the
    status of the old file and raises an error to refuse it; `expected` gets its content or None.
    """
    old = _open_old(folder, name)
    try:
        if old is None:
            if expected is not None:
                expected(None)
            _by_rename(folder, name, data, None)
            return
        status = os.fstat(old)
        check(status)
        if expected is not None:
            expected(_content(folder, name, old))
        if status.st_nlink <= 1:
            try:
                _by_rename(folder, name, data, old)
                return
            except OSError as error:
                if error.errno not in _ONLY_IN_PLACE:
                    raise
        _in_place(folder, name, data, old)
    finally:
        if old is not None:
            os.close(old)


def _open_old(folder: int | None, name: str) -> int | None:
    """Open the file to replace: a file that cannot be written must not be replaced either."""
    try:
        return os.open(name, _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None


def _by_rename(folder: int | None, name: str, data: bytes, old: int | None) -> None:
    temporary = _temporary(folder, name, data, old)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _temporary(folder: int | None, name: str, data: bytes, old: int | None) -> str:
    """Write a file next to another, with the same attributes, and flush it; return its name."""
    temporary = f".accord-{os.urandom(8).hex()}.tmp"
    if folder is None:
        temporary = os.path.join(os.path.dirname(name), temporary)  # noqa: PTH118, PTH120  # a text
    mode = 0o666 if old is None else 0o600
    fd = os.open(temporary, _FLAGS | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
    try:
        try:
            _write(fd, data)
            if old is not None:
                _copy_attributes(old, fd)
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return temporary


def _copy_attributes(old: int, new: int) -> None:
    """Copy owner, extended attributes and mode; raise `OSError` if one would be lost."""
    if os.name == "nt":
        return
    was, now = os.fstat(old), os.fstat(new)
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(new, was.st_uid, was.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # a file system without them
            for attribute in os.listxattr(old):
                _copy_attribute(old, new, attribute)
    mode = stat.S_IMODE(was.st_mode) & ~stat.S_ISUID
    if mode & stat.S_IXGRP:
        mode &= ~stat.S_ISGID
    os.fchmod(new, mode)  # as a write leaves it


def _copy_attribute(old: int, new: int, attribute: str) -> None:
    # What the system derives, and what a write takes away from a program, is not copied.
    if attribute.startswith(("security.", "trusted.")):
        return
    with contextlib.suppress(OSError):
        os.setxattr(new, attribute, os.getxattr(old, attribute))


def _in_place(folder: int | None, name: str, data: bytes, fd: int) -> None:
    was = _content(folder, name, fd)
    try:
        _overwrite(fd, data)
        os.fsync(fd)
    except OSError:
        if was is not None:
            with contextlib.suppress(OSError):  # a full disk accepts the old content
                _overwrite(fd, was)
        raise


def _content(folder: int | None, name: str, fd: int) -> bytes | None:
    """Return the content of an open file; None if it is writable but not readable."""
    flags = _FLAGS & ~os.O_WRONLY | os.O_RDONLY
    try:
        second = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(second, "rb") as file:
        if not os.path.samestat(os.fstat(second), os.fstat(fd)):
            return None
        return file.read()


def _overwrite(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    _write(fd, data)
    os.ftruncate(fd, len(data))


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


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


# Texts of files, read in threads: a few at a time, and only while a caller waits.

READS_AT_ONCE = 4  # each holds `MAX_BYTES` at most


class Reads:
    """The reads of one owner; those beyond `READS_AT_ONCE` wait for their turn."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(READS_AT_ONCE)

    async def read(
        self, roots: Roots, path: str, line: int | None = None, limit: int | None = None
    ) -> str:
        """Return what `Roots.read` returns; a cancelled read stops soon."""
        async with self._free:
            stop = threading.Event()
            try:
                return await asyncio.to_thread(roots.read, path, line, limit, stop=stop.is_set)
            finally:
                stop.set()
