"""Replaces the content of a file atomically: readers see the old text or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

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
