"""Temporary folders: made, removed whatever an agent has left in them, and found when abandoned.

`scratch_folder` makes one, which a later run removes if this process is killed. `remove_tree`
removes one, and a `Remover` many while attempts continue. `socket_folder` is for Unix sockets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

_MOST_REPORTED = 5


def remove_tree(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Remove a folder; return what could not be removed, with the reasons, at most five.

    Read-only folders are made writable first. Symbolic links are removed, never followed. A second
    round removes what a process wrote during the first, and folders that are nested too deeply.
    A folder that an agent has removed itself counts as removed.
    """
    with suppress(OSError):
        os.rmdir(path)  # noqa: PTH106  # most are empty; a path costs more than the call
        return ()
    failures: list[str] = []
    for _ in range(2):
        failures = []
        try:
            _remove(Path(path), failures)
        except FileNotFoundError:
            return ()
        except RecursionError:
            _remove_by_command(path)
        if not os.path.lexists(path):
            return ()
    return tuple(failures[:_MOST_REPORTED]) or (f"{path}: not empty",)


def _remove(path: Path, failures: list[str]) -> None:
    def failed(_: Callable[..., Any], name: str, error: BaseException) -> None:
        if isinstance(error, RecursionError) or not isinstance(error, OSError):
            raise error
        if isinstance(error, FileNotFoundError):
            return
        if isinstance(error, PermissionError) and _made_writable(Path(name), path):
            _remove(Path(name), failures)
        else:
            failures.append(f"{name}: {error.strerror or error}")

    if not stat.S_ISDIR(path.lstat().st_mode):
        try:
            path.unlink()
        except OSError as error:
            failed(os.unlink, str(path), error)
    elif sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=failed)
    else:
        shutil.rmtree(path, onerror=lambda function, name, info: failed(function, name, info[1]))


def _made_writable(path: Path, root: Path) -> bool:
    """Let the owner change a path and the folder that it is in; return whether one was changed."""
    changed = False
    for place in (path.parent, path) if path != root else (path,):
        try:
            mode = stat.S_IMODE(place.lstat().st_mode)
            if place.is_symlink() or (not place.is_dir() and os.name != "nt"):
                continue
            wanted = mode | (stat.S_IRWXU if place.is_dir() else stat.S_IWRITE)
            if mode != wanted:
                place.chmod(wanted)
                changed = True
        except OSError:
            continue
    return changed


def _remove_by_command(path: str | os.PathLike[str]) -> None:
    """Remove what is nested more deeply than Python's recursion allows."""
    if program := shutil.which("rm"):
        subprocess.run([program, "-rf", "--", os.fspath(path)], capture_output=True, check=False)


log: logging.Logger = logging.getLogger("accord.fleet")

_MANY = 64  # folders that are removed without waiting for others
_MOST = 256  # folders that wait
_PAUSE_S = 0.1  # in which others may join


class Remover:
    """Removes folders in a thread, many in one call: some file systems take long for each."""

    def __init__(self) -> None:
        self._waiting: list[Path] = []
        self._timer: asyncio.TimerHandle | None = None
        self._removing: asyncio.Task[None] | None = None

    async def add(self, folder: Path) -> None:
        """Let a folder be removed soon; wait only if too many wait already."""
        self._waiting.append(folder)
        self._plan()
        if len(self._waiting) > _MOST and self._removing is not None:
            await asyncio.shield(self._removing)

    async def aclose(self) -> None:
        """Wait until all folders are removed."""
        while self._waiting or self._removing is not None:
            self._start()
            if self._removing is not None:
                await asyncio.shield(self._removing)

    def _plan(self) -> None:
        if len(self._waiting) >= _MANY:
            self._start()
        elif self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._removing is None:
            self._removing = asyncio.create_task(self._remove(), name="accord fleet remover")

    async def _remove(self) -> None:
        folders, self._waiting = self._waiting, []
        try:
            await asyncio.to_thread(removed, folders)
        finally:
            self._removing = None
            self._plan()


def removed(folders: list[Path]) -> None:
    """Remove folders; what cannot be removed is logged as a warning."""
    for folder in folders:
        for failure in remove_tree(folder):
            log.warning("A workspace was not removed completely: %s", failure)


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


_LONGEST = 60  # bytes, with what the folder is called; a socket's path has at most 103


@contextmanager
def socket_folder() -> Generator[Path]:
    """Make a folder that only this user can enter, and remove it after the block.

    It is in the folder for temporary files, or in `/tmp` if that has a long path. A later run
    removes it if this process is killed.
    """
    is_long = len(os.fsencode(tempfile.gettempdir())) > _LONGEST
    with scratch_folder("/tmp" if is_long and Path("/tmp").is_dir() else None) as folder:
        yield folder
