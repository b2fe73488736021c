"""Paths of files that are written into a workspace."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from accord_fleet.workspaces.errors import WorkspaceError

_LONGEST = 4000


def why_not_relative(path: str) -> str | None:
    """Return why a path is not one of a file inside a workspace; None if it is one."""
    parts = PurePosixPath(path).parts
    if not path or path.endswith("/") or path in (".", "./"):
        return "expected the path of a file"
    if "\0" in path or len(path) > _LONGEST:
        return "expected a path without NUL characters, of at most 4000 characters"
    if path.startswith("/") or "\\" in path or (len(path) > 1 and path[1] == ":"):
        return "expected a relative path with slashes"
    if ".." in parts:
        return "expected a path inside the workspace, without '..'"
    if any(part.lower() == ".git" for part in parts):
        return "expected a path outside of .git"
    return None


def check_inside(root: Path, path: str) -> Path:
    """Return the place of a relative path; raise `WorkspaceError` if a link leads to it.

    No agent may be running in the workspace.
    """
    if why := why_not_relative(path):
        raise WorkspaceError(f"{path!r}: {why}")
    place = root
    for part in PurePosixPath(path).parts[:-1]:
        place = place / part
        if place.is_symlink():
            raise WorkspaceError(f"{path!r}: expected a folder, {part!r} is a symbolic link")
    return root / path


def write_files(root: Path, files: dict[str, str]) -> None:
    """Write the files of a task into its workspace; existing files are replaced, not followed."""
    for path, text in files.items():
        place = check_inside(root, path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(place):
                place.unlink()
            place.write_text(text, "utf-8", newline="")
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkspaceError(f"The file {path!r} of the task: {why}") from error
