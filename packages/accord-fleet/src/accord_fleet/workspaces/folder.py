"""Copies of folders; blocks are shared with the original where the file system can do so."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from accord.text.excerpt import one_line
from accord_fleet.workspaces.errors import WorkspaceError

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def copy_folder(source: Path, root: Path) -> None:
    """Copy a folder into `root`, which exists and is empty. Symbolic links stay as they are.

    Raises `WorkspaceError` for a source that is missing, that contains `root`, or that has named
    pipes, sockets or devices.
    """
    if not source.is_dir():
        what = "is a file" if source.exists() else "does not exist"
        raise WorkspaceError(f"Expected the folder {source}; it {what}")
    if root.resolve().is_relative_to(source.resolve()):
        raise WorkspaceError(f"Expected a folder that does not contain the workspace {root}")
    for path, mode in _special_files(source):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise WorkspaceError(f"Expected files, folders and links; {path} is {kind}")
    command = _copy_command()
    if command is not None:
        done = subprocess.run(
            [*command, f"{source}/.", str(root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return
        why = one_line(done.stderr.decode("utf-8", "replace").strip(), 500)
        if "option" not in why:
            raise WorkspaceError(f"Copying {source}: {why}")
    try:
        shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise WorkspaceError(f"Copying {source}: {one_line(str(error), 500)}") from error


def _copy_command() -> tuple[str, ...] | None:
    program = shutil.which("cp")
    if program is None:
        return None
    if sys.platform == "linux":
        return (program, "--archive", "--reflink=auto", "--no-target-directory", "--")
    if sys.platform == "darwin":
        return (program, "-c", "-R", "-p")
    return None


def _special_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the entries that are neither files nor folders nor symbolic links."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry.path, entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            raise WorkspaceError(f"Reading {folder}: {error.strerror or error}") from error
