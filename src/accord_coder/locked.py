"""Files that several processes change: one at a time reads, changes and replaces them."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ("locked",)

_LONGEST_S = 5.0  # that we wait for the others, who take milliseconds
_AGAIN_S = 0.01
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextmanager
def locked(folder: Path) -> Generator[None, None, None]:
    """Keep other processes and threads that call this for a folder out meanwhile.

    Raises `TimeoutError` when they do not leave within five seconds. Where a file system has no
    locks, nobody is kept out.
    """
    held = _open(folder)
    try:
        until = time.monotonic() + _LONGEST_S
        while not _taken(held):
            if time.monotonic() > until:
                raise TimeoutError(f"another process does not leave {folder}")
            time.sleep(_AGAIN_S)
        yield
    finally:
        os.close(held)  # which unlocks


if sys.platform == "win32":

    def _open(folder: Path) -> int:
        # A directory cannot be locked here.
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)

    def _taken(held: int) -> bool:
        import msvcrt

        try:
            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            return exc.errno not in _HELD
        return True

else:

    def _open(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def _taken(held: int) -> bool:
        import fcntl

        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            return exc.errno not in _HELD
        return True
