"""Prepares the workspaces of attempts, finds what an agent changed in them, and removes them."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from accord.text.excerpt import one_line
from accord_fleet.scratch import Remover, removed
from accord_fleet.types import Archive, EmptyFolder, Folder, GitRepository, Task
from accord_fleet.workspaces.contents import copy_folder, extract_archive, write_files
from accord_fleet.workspaces.git import (
    GitMirrors,
    WorkspaceError,
    default_cache,
    git,
    has_git,
    make_repository,
)


class WorkspaceDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt changed in its workspace."""

    text: str = ""
    """A unified diff, cut at a limit."""
    files: tuple[str, ...] = ()
    """The relative paths of the changed files; for renamed ones, both."""
    cut: bool = False
    """Whether the text ends at the limit."""
    problem: str | None = None
    """Why changes are missing, for example because git is not installed."""


# Changes are found by git with a repository of our own. It is outside of the workspace, so that
# nothing in there configures it: neither filters nor hooks nor what the agent committed count.

DIFF_BYTES = 1024 * 1024
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_GITLINK = "160000"
_SETTINGS = (
    "core.bigFileThreshold=8m",  # larger files are named only
    "core.safecrlf=false",
    "core.looseCompression=1",
    "diff.renameLimit=2000",
)
_DIFF = (
    "--cached",
    "--find-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class Snapshot:
    """What was in a workspace before the agent; `place` is a folder outside of the workspace."""

    def __init__(self, root: Path, place: Path, objects: Path) -> None:
        self.is_made: bool = False
        """Whether `place` may exist."""
        self._root = root
        self._git_dir = place / "diff.git"
        self._index = place / "diff.index"
        self._objects = objects  # shared by snapshots: attempts have the same files
        self._base: str | None = None
        self._files: dict[str, str] = {}
        self._respects_ignored = False
        self._identity = _identity(root)

    def take_empty(self, files: dict[str, str]) -> None:
        """Start from a workspace that has only the files of the task."""
        self._files = files

    async def take_commit(self, commit: str, files: dict[str, str]) -> None:
        """Start from a checked-out commit and the files of the task."""
        await asyncio.to_thread(self._make, self._root / ".git" / "objects" / "info" / "alternates")
        self._respects_ignored = True
        self._base = commit
        shutil.copy2(self._root / ".git" / "index", self._index)
        if files:
            names = "\0".join(files).encode()
            await self._git("add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul",
                            stdin=names, settings=("core.literalPathspecs=true",))  # fmt: skip
            self._base = await self._write_tree()

    async def take_folder(self) -> None:
        """Start from all files of the workspace."""
        if not has_git():
            return
        await asyncio.to_thread(self._make)
        await self._add_all(self._root, shared=True)
        self._base = await self._write_tree(shared=True)

    async def diff(self, limit_bytes: int = DIFF_BYTES) -> WorkspaceDiff:
        """Return what has changed since the snapshot; files that git ignores count for folders."""
        if self._identity is None or _identity(self._root) != self._identity:
            return WorkspaceDiff(problem="The agent has replaced or removed the workspace's folder")
        if self._base is None:
            if not self._files and self.is_empty():
                return WorkspaceDiff()
            if await asyncio.to_thread(self._has_only_task_files):
                return WorkspaceDiff()
        if not has_git():
            return WorkspaceDiff(problem="git is not installed: changes are not known")
        try:
            if self._base is None:
                await self._base_of_files()
            problem = await self._add_all(self._root)
            changes = await self._git("diff", *_DIFF, "--raw", "-z", "--no-abbrev", self._based)
            files = _changed_files(changes)
            if not files:
                return WorkspaceDiff(problem=problem)
            done = await git(
                "diff", *_DIFF, self._based, cwd=self._root, env=self._environment(),
                settings=_SETTINGS, limit_bytes=limit_bytes,
            )  # fmt: skip
        except (OSError, WorkspaceError) as error:
            return WorkspaceDiff(problem=f"The changes are not known: {error}")
        text = done.stdout.decode("utf-8", "replace")
        if done.cut:
            text = text[: text.rfind("\n") + 1]
        return WorkspaceDiff(text=text, files=files, cut=done.cut, problem=problem)

    def is_empty(self) -> bool:
        """Return whether the workspace has no files and no folders."""
        try:
            with os.scandir(self._root) as entries:
                return next(entries, None) is None
        except OSError:
            return False

    @property
    def _based(self) -> str:
        return self._base or _EMPTY_TREE

    def _make(self, alternates: Path | None = None) -> None:
        self.is_made = True
        self._git_dir.parent.mkdir(mode=0o700, exist_ok=True)
        make_repository(self._git_dir, "ref: refs/heads/main")
        lines = os.fsencode(self._objects) + b"\n"
        if alternates is not None:
            lines += alternates.read_bytes()
        self._objects.mkdir(parents=True, exist_ok=True)
        (self._git_dir / "objects" / "info" / "alternates").write_bytes(lines)

    def _has_only_task_files(self) -> bool:
        """Return whether nothing has changed, without starting git."""
        found = 0
        folders = {parent for path in self._files for parent in _parents(path)}
        for parent, names, files in os.walk(self._root):
            here = Path(parent).relative_to(self._root)
            for name in (*names, *files):
                path = (here / name).as_posix()
                place = self._root / path
                if place.is_symlink():
                    return False
                if name in names:
                    if path not in folders:
                        return False
                    continue
                text = self._files.get(path)
                if text is None or place.stat().st_size != len(data := text.encode()):
                    return False
                if place.stat().st_mode & 0o111 or place.read_bytes() != data:
                    return False
                found += 1
        return found == len(self._files)

    async def _base_of_files(self) -> None:
        await asyncio.to_thread(self._make)
        self._base = _EMPTY_TREE
        if self._files:
            copy = self._git_dir.parent / "base"
            copy.mkdir()
            await asyncio.to_thread(write_files, copy, self._files)
            await self._add_all(copy, shared=True)
            self._base = await self._write_tree(shared=True)

    async def _add_all(self, root: Path, *, shared: bool = False) -> str | None:
        """Put all files into the index; return which could not be read.

        A folder with a repository of its own counts as its files, not as a commit.
        """
        every = () if self._respects_ignored else ("--force",)
        hidden = ("--exclude-standard",) if self._respects_ignored else ()
        listed = await self._git("ls-files", "--others", *hidden, "-z", root=root)
        nested = [name for name in _names(listed) if name.endswith("/")]
        excluded = [f":(exclude,literal){name.rstrip('/')}" for name in nested]
        problem = None
        try:
            await self._git(
                "add", "--all", *every, "--ignore-errors", "--pathspec-from-file=-",
                "--pathspec-file-nul", root=root, shared=shared,
                stdin="\0".join([".", *excluded]).encode("utf-8", "surrogateescape"),
            )  # fmt: skip
        except WorkspaceError as error:
            problem = f"Some changes are not known: {error}"
        if nested:
            files = await asyncio.to_thread(lambda: [*_files_in(root, nested)])
            await self._git(
                "update-index", "--add", "-z", "--stdin", root=root, shared=shared,
                stdin=b"".join(name + b"\0" for name in files),
            )  # fmt: skip
        return problem

    async def _write_tree(self, *, shared: bool = False) -> str:
        return (await self._git("write-tree", shared=shared)).decode().strip()

    async def _git(
        self,
        *args: str,
        root: Path | None = None,
        stdin: bytes = b"",
        shared: bool = False,
        settings: tuple[str, ...] = (),
    ) -> bytes:
        root = root or self._root
        env = self._environment(root)
        if shared:
            env["GIT_OBJECT_DIRECTORY"] = str(self._objects)
        done = await git(*args, cwd=root, env=env, stdin=stdin, settings=(*_SETTINGS, *settings))
        return done.stdout

    def _environment(self, root: Path | None = None) -> dict[str, str]:
        return {
            "GIT_DIR": str(self._git_dir),
            "GIT_INDEX_FILE": str(self._index),
            "GIT_WORK_TREE": str(root or self._root),
        }


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _parents(path: str) -> list[str]:
    return [parent.as_posix() for parent in Path(path).parents if parent != Path()]


def _names(listed: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name]


def _changed_files(raw: bytes) -> tuple[str, ...]:
    """Return the paths of `git diff --raw -z`."""
    fields = raw.split(b"\0")
    files: list[str] = []
    at = 0
    while at < len(fields) - 1:
        status = fields[at].rpartition(b" ")[2]
        count = 2 if status[:1] in (b"R", b"C") else 1
        files += [name.decode("utf-8", "replace") for name in fields[at + 1 : at + 1 + count]]
        at += 1 + count
    return tuple(dict.fromkeys(files))


def _files_in(root: Path, folders: list[str]) -> list[bytes]:
    """Return the files and links in folders of `root`, without what is in `.git`."""
    found: list[bytes] = []
    for folder in folders:
        for parent, names, files in os.walk(root / folder):
            links = [name for name in names if Path(parent, name).is_symlink()]
            names[:] = [name for name in names if name != ".git"]
            for name in (*files, *links):
                place = Path(parent, name)
                if name != ".git" and (place.is_symlink() or place.is_file()):
                    found.append(os.fsencode(place.relative_to(root)))
    return found


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
    """Prepares the workspaces of a run on one machine.

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
