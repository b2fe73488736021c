"""Prepares the workspaces of attempts, and removes them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from accord_fleet.types.task import Archive, EmptyFolder, Folder, GitRepository, Task
from accord_fleet.workspaces.archive import extract_archive
from accord_fleet.workspaces.changes import DIFF_BYTES, Snapshot, WorkspaceDiff
from accord_fleet.workspaces.errors import WorkspaceError
from accord_fleet.workspaces.folder import copy_folder
from accord_fleet.workspaces.git_mirrors import GitMirrors, default_cache
from accord_fleet.workspaces.paths import write_files
from accord_fleet.workspaces.remove import remove_tree

__all__ = ("PreparedWorkspace", "Workspaces")

P = ParamSpec("P")
T = TypeVar("T")


class PreparedWorkspace:
    """The workspace of one attempt."""

    def __init__(self, place: Path, objects: Path) -> None:
        self.root: Path = place / "workspace"
        """The folder that the agent works in."""
        self.readable: tuple[Path, ...] = ()
        """Folders outside of `root` that programs in it need to read."""
        self._place = place
        self.snapshot: Snapshot = Snapshot(self.root, place, objects)

    async def diff(self, limit_bytes: int = DIFF_BYTES) -> WorkspaceDiff:
        """Return what has changed since the workspace was prepared, at most `limit_bytes` of it."""
        return await self.snapshot.diff(limit_bytes)

    async def remove(self) -> tuple[str, ...]:
        """Remove the workspace; return what could not be removed, with the reasons."""
        return await asyncio.to_thread(remove_tree, self._place)


class Workspaces:
    """The workspaces of a run on one machine.

    They are in a new folder in `scratch`, or in the folder for temporary files. `cache` has copies
    of git repositories, which later runs use again.
    """

    def __init__(self, scratch: Path | None = None, cache: Path | None = None) -> None:
        self._scratch = scratch
        self._folder: Path | None = None
        self._mirrors = GitMirrors(cache or default_cache())

    @property
    def folder(self) -> Path:
        """The folder of all workspaces, which only this user can read; made when it is used."""
        if self._folder is None:
            if self._scratch is not None:
                self._scratch.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix="accord-fleet-", dir=self._scratch)
            self._folder = Path(made).resolve()
        return self._folder

    async def prepare(self, task: Task) -> PreparedWorkspace:
        """Prepare a workspace for one attempt at a task.

        Raises `WorkspaceError`, which names the task, what was expected and what came; nothing is
        left of the workspace then.
        """
        try:
            place = Path(tempfile.mkdtemp(prefix=f"{task.id[:40]}-", dir=self.folder))
            (place / "workspace").mkdir(mode=0o700)
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkspaceError(f"The workspace of the task {task.id}: {why}") from error
        prepared = PreparedWorkspace(place, self.folder / "objects")
        try:
            await self._fill(prepared, task)
        except BaseException as error:
            await asyncio.shield(prepared.remove())
            if isinstance(error, (OSError, WorkspaceError)):
                raise WorkspaceError(f"The workspace of the task {task.id}: {error}") from error
            raise
        return prepared

    async def aclose(self) -> tuple[str, ...]:
        """Remove the folder of all workspaces; return what could not be removed."""
        if self._folder is None:
            return ()
        folder, self._folder = self._folder, None
        return await asyncio.to_thread(remove_tree, folder)

    async def _fill(self, prepared: PreparedWorkspace, task: Task) -> None:
        root, snapshot = prepared.root, prepared.snapshot
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
