"""The directories of the user's data and configuration, and locks on directories."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ("config_dir", "data_dir", "lock_directory", "private_dir")

_MAX_WAIT_S = 5.0  # for other processes, which hold a lock for milliseconds


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the sessions: `ACCORD_DATA`, else the system's place for data."""
    if named := environ.get("ACCORD_DATA"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("accord", appauthor=False)


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of settings and keys: `ACCORD_CONFIG`, else the system's place."""
    if named := environ.get("ACCORD_CONFIG"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_config_path

    return user_config_path("accord", appauthor=False, roaming=True)


def private_dir(path: Path) -> Path:
    """Create a directory that only the user can open, with its parents, and return it.

    A directory that exists keeps its mode: others may share it. Its files need their own modes.
    """
    missing: list[Path] = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


@contextmanager
def lock_directory(folder: Path) -> Generator[None, None, None]:
    """Keep other threads and processes that lock this directory out of the block.

    Raises `TimeoutError` if they hold the lock for five seconds, `OSError` if the file `.lock` in
    the directory cannot be opened; a link is not followed.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=_MAX_WAIT_S, poll_interval=0.01, mode=0o600)
    try:
        lock.acquire()
    except Timeout as exc:
        raise TimeoutError(f"another process has locked {folder}") from exc
    try:
        yield
    finally:
        lock.release()
