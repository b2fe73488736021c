"""Locks on directories, for all processes of the user."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_MAX_WAIT_S = 5.0  # for other processes, which hold a lock for milliseconds


@contextmanager
def lock_directory(folder: Path) -> Generator[None, None, None]:
    """Keep other threads and processes that lock this directory out of the block.

    Raises `TimeoutError` if they hold the lock for five seconds, `OSError` if the file `.lock` in
    the directory cannot be opened; a link is not followed.
    """
    from filelock import FileLock, Timeout  # slow to import

    lock = FileLock(folder / ".lock", timeout=_MAX_WAIT_S, poll_interval=0.01, mode=0o600)
    try:
        lock.acquire()
    except Timeout as exc:
        raise TimeoutError(f"another process has locked {folder}") from exc
    try:
        yield
    finally:
        lock.release()
