"""Prepares the workspaces of attempts, and removes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from accord.text.excerpt import one_line
from accord_fleet.parts import WorkspaceDiff
from accord_fleet.types.task import Archive, EmptyFolder, Folder, GitRepository, Task
from accord_fleet.workspaces.archive import extract_archive
from accord_fleet.workspaces.changes import DIFF_BYTES, Snapshot
from accord_fleet.workspaces.errors import WorkspaceError
from accord_fleet.workspaces.folder import copy_folder
from accord_fleet.workspaces.git_mirrors import GitMirrors, default_cache
from accord_fleet.workspaces.paths import write_files
from accord_fleet.workspaces.remover import Remover, removed

P = ParamSpec("P")
T = TypeVar("T")


class PreparedFolder:
    """The workspace of one attempt; what the diff needs is in a folder next to it."""

    def __init__(self, path: Path, objects: Path, remover: Remover) -> None:
        self.path: Path = path
        self.readable: tuple[Path, ...] = ()
        """Folders elsewhere that programs in the workspace need to read."""
        self._beside = path.with_name(f"{path.name}.diff")
        self._remover = remover
        self.snapshot: Snapshot = Snapshot(path, self._beside, objects)

    async def diff(self, limit_bytes: int = DIFF_BYTES) -> WorkspaceDiff:
        """Return what has changed since the workspace was prepared, at most `limit_bytes` of it.

        If changes are missing, the text begins with a line that says why.
        """
        found = await self.snapshot.diff(limit_bytes)
        if found.problem is None:
            return found
        text = f"# {one_line(found.problem)}\n{found.text}"
        return msgspec.structs.replace(found, text=text)

    async def remove(self) -> None:
        """Remove the workspace, an empty one soon; what cannot be removed is logged."""
        if not self.snapshot.is_made and self.snapshot.is_empty():
            await self._remover.add(self.path)
        else:
            await self.remove_now()

    async def remove_now(self) -> None:
        """Remove the workspace before this returns."""
        await asyncio.to_thread(removed, [self.path, self._beside])


class FolderWorkspaces:
    """The workspaces of a run on one machine (`accord_fleet.parts.Workspaces`).

    `scratch` is a folder for what they share during the run. `cache` has copies of git
    repositories, which later runs use again.
    """

    def __init__(self, scratch: Path, cache: Path | None = None) -> None:
        self._objects = scratch / "snapshots"
        self._remover = Remover()
        self._mirrors = GitMirrors(cache or default_cache())
        self._parents: dict[Path, Path] = {}

    async def prepare(self, task: Task, folder: Path) -> PreparedFolder:
        """Prepare a workspace in `folder`, which does not exist, for one attempt at a task.

        Raises `WorkspaceError`, which names the task, what was expected and what came; nothing is
        left of the workspace then.
        """
        try:
            path = self._made(folder)
            prepared = PreparedFolder(path, self._objects, self._remover)
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkspaceError(f"The workspace of the task {task.id}: {folder}: {why}") from error
        try:
            await self._fill(prepared, task)
        except BaseException as error:
            await asyncio.shield(prepared.remove_now())
            if isinstance(error, (OSError, WorkspaceError)):
                raise WorkspaceError(f"The workspace of the task {task.id}: {error}") from error
            raise
        return prepared

    async def aclose(self) -> None:
        """Wait until empty workspaces are removed, which happens while other attempts run."""
        await self._remover.aclose()

    def _made(self, folder: Path) -> Path:
        """Make a folder; return its path without links."""
        if (parent := self._parents.get(folder.parent)) is not None:
            with suppress(FileNotFoundError):  # an agent may have removed the parent
                path = parent / folder.name
                os.mkdir(path, 0o700)  # noqa: PTH102  # for each attempt
                return path
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._parents[folder.parent] = folder.parent.resolve()
        path = self._parents[folder.parent] / folder.name
        path.mkdir(mode=0o700)
        return path

    async def _fill(self, prepared: PreparedFolder, task: Task) -> None:
        root, snapshot = prepared.path, prepared.snapshot
        match task.workspace:
            case EmptyFolder():
                if task.files:
                    await _in_thread(write_files, root, task.files)
                snapshot.take_empty(task.files)
                return
            case GitRepository(url=url, commit=commit):
                sha, objects = await self._mirrors.check_out(url, commit, root)
                prepared.readable = (objects,)
                await _in_thread(write_files, root, task.files)
                await snapshot.take_commit(sha, task.files)
                return
            case Folder(path=path):
                await _in_thread(copy_folder, Path(path), root)
            case Archive(path=path):
                await _in_thread(extract_archive, path, root)
        root.chmod(0o700)
        await _in_thread(write_files, root, task.files)
        await snapshot.take_folder()


async def _in_thread(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in a thread; wait for it even if cancelled, as it still writes."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # it counts no more
        raise
