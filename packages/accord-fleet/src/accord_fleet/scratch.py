"""Temporary folders of runs, which a later run removes if their process was killed."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from accord_fleet.workspaces.remove import remove_tree

_PREFIX = "accord-fleet-"


@contextmanager
def scratch_folder(parent: str | None = None) -> Generator[Path]:
    """Make a temporary folder, and remove it after the block; `parent` is `/tmp` if it is given.

    A lock in the same directory, which ends with this process, tells later runs that it is used.
    """
    folder, lock = _locked_folder(Path(parent or tempfile.gettempdir()).resolve())
    try:
        yield folder
    finally:
        remove_tree(folder)
        with suppress(OSError):
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def remove_abandoned() -> None:
    """Remove the temporary folders of this user's processes that no longer live."""
    folders = {Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve()}
    for lock_file in (file for folder in folders for file in folder.glob(f"{_PREFIX}*.lock")):
        folder = lock_file.with_suffix("")
        if not is_own(lock_file) or (os.path.lexists(folder) and not is_own(folder)):
            continue
        with suppress(Timeout, NotImplementedError, OSError), _lock(lock_file).acquire(timeout=0):
            remove_tree(folder)
            lock_file.unlink(missing_ok=True)


def _locked_folder(parent: Path) -> tuple[Path, FileLock]:
    while True:
        # The lock is first, so that a killed process leaves no folder without one.
        folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
        lock_file = folder.with_name(f"{folder.name}.lock")
        lock = _lock(lock_file)
        try:
            lock.acquire()
        except (NotImplementedError, OSError):
            # Without locks here, it is never taken for an abandoned one.
            with suppress(OSError):
                lock_file.unlink(missing_ok=True)
            folder.mkdir(0o700)
            return folder, lock
        if lock_file.exists():
            folder.mkdir(0o700)
            return folder, lock
        # Another run has found the lock before it was acquired.
        lock.release()


def _lock(path: Path) -> FileLock:
    # It is released by another thread, and never a file that outlives its process.
    return FileLock(path, thread_local=False, fallback_to_soft=False)


def is_own(path: Path) -> bool:
    """Return whether a path is a file or folder of this user, and not a link."""
    with suppress(OSError):
        return not path.is_symlink() and (
            not hasattr(os, "getuid") or path.lstat().st_uid == os.getuid()
        )
    return False
