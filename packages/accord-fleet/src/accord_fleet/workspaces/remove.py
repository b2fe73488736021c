"""Removes folders, whatever an agent has left in them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

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
