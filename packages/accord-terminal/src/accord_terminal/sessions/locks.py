"""Locks that die with the process that holds them (R-NAMED-02)."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from accord_terminal.sessions.errors import StoreError

if os.name != "nt":
    import fcntl


class Lock:
    """An exclusive lock on a file; the kernel frees it when the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @staticmethod
    def take(path: Path, *, wait: bool = False) -> Lock | None:
        """Take the lock; None if another process holds it and `wait` is false."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise StoreError(f"Cannot open the lock {path}: {exc.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(fd)
            if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise StoreError(f"Cannot lock {path}: {exc.strerror}") from None
        return Lock(fd)

    def release(self) -> None:
        """Free the lock; the file stays, so that all use the same one."""
        os.close(self._fd)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock."""
    if not path.exists():
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def locked(path: Path) -> Generator[None, None, None]:
    """Hold a lock during the block, which must be short: others wait for it."""
    lock = Lock.take(path, wait=True)
    assert lock is not None, "it waits"
    try:
        yield
    finally:
        lock.release()
