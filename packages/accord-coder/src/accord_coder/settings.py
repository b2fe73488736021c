"""How the coder was started, and its directories: the user's, and those around a session."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """The settings from the command line and the environment.

    `model` is `provider:name`, `local` or `demo`; None is the first provider with a key. `data` is
    the directory of the sessions, `config` that of the configuration and the keys; or None.
    `bypass` offers the mode that never asks, `fetch` lets the agent reach the network,
    `fetch_private` also this machine and networks that are not public.
    """

    model: str | None = None
    base_url: str | None = None
    mode: str = "default"
    bypass: bool = False
    fetch: bool = False
    fetch_private: bool = False
    data: Path | None = None
    config: Path | None = None
    max_requests: int = 100


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


def with_parents(folder: str, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a directory and its parents, up to where git looks for a repository.

    Git stops before a directory in `GIT_CEILING_DIRECTORIES`.
    """
    named = environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ceilings = {os.path.normpath(name) for name in named if name}
    here = os.path.normpath(folder)
    while True:
        yield here
        parent = os.path.dirname(here)  # noqa: PTH120  # a text
        if parent == here or parent in ceilings:
            return
        here = parent
