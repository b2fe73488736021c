"""The files of a session's folder that can be mentioned: those that git does not ignore."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from accord.local.files import is_within, real_path

MAX_FILES = 50_000
LIST_TIMEOUT_S = 5.0
FRESH_S = 10.0  # a list that is older is made again
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class FolderFiles:
    """Lists the files of a folder as relative paths, and finds a mentioned one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths: tuple[str, ...] = ()
        self._listed_s = float("-inf")

    @property
    def is_fresh(self) -> bool:
        """Whether the list was made a short time ago."""
        return time.monotonic() - self._listed_s < FRESH_S

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths as last listed."""
        return self._paths

    def refresh(self) -> tuple[str, ...]:
        """List the files again; this reads the disk."""
        listed = _git_files(self.folder)
        if listed is None:
            listed = list(_walk(self.folder))
        self._paths = tuple(sorted(dict.fromkeys(listed), key=lambda path: (path.count("/"), path)))
        self._listed_s = time.monotonic()
        return self._paths

    def find(self, mention: str) -> Path | None:
        """Return the file of a mention, with links resolved; None if it is not in the folder."""
        path = self.folder / mention
        try:
            real, root = real_path(str(path)), real_path(str(self.folder))
        except (OSError, ValueError):
            return None
        if not is_within(root, real) or not Path(real).is_file():
            return None
        return Path(real)


def _git_files(folder: Path) -> list[str] | None:
    """Return what git tracks or would add below a folder; None if git does not know it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=LIST_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    names = done.stdout.decode("utf-8", "replace").split("\0")[:MAX_FILES]
    return [name for name in names if name and _exists(folder / name)]


def _exists(path: Path) -> bool:
    try:
        return path.is_file()  # git also lists what was deleted
    except OSError:
        return False


def _walk(folder: Path) -> Iterator[str]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        for name in sorted(files):
            if name.startswith("."):
                continue
            yield Path(place, name).relative_to(folder).as_posix()
            count += 1
            if count == MAX_FILES:
                return
