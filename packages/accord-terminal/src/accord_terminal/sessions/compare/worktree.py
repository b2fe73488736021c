"""Git worktrees for agents: made from the current commit, compared with it, and removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from accord_terminal.sessions.errors import USAGE, SessionsError

_GIT_S = 120.0
_END_S = 5.0
# What a shell inside of git, such as a hook, sets: it would name another repository.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


class GitError(SessionsError):
    """Git has refused a command."""


class _NoRepository(GitError):
    """The directory has no commit to start from."""

    status = USAGE


class FileChange(Struct, frozen=True):
    """A changed file; the numbers of lines are None if it is binary."""

    path: str
    added: int | None
    removed: int | None


async def base_commit(cwd: Path) -> str:
    """Return the current commit; raise `GitError` if there is none."""
    try:
        return (await _git(cwd, "rev-parse", "--verify", "HEAD")).decode().strip()
    except GitError:
        raise _NoRepository(
            f"Expected a directory in a git repository with a commit, got {cwd}"
        ) from None


async def has_changes(cwd: Path) -> bool:
    """Return whether the user has changes that are not committed."""
    return bool(await _git(cwd, "status", "--porcelain"))


class Worktree:
    """A worktree at a commit; `cwd` is the user's directory in it."""

    def __init__(self, repository: Path, folder: Path, base: str, below: Path) -> None:
        self._repository = repository
        self._base = base
        self.folder = folder
        self.cwd: Path = folder / below

    @staticmethod
    async def add(cwd: Path, base: str) -> Worktree:
        """Add a worktree in a new temporary folder."""
        found = os.fsdecode(await _git(cwd, "rev-parse", "--show-toplevel", "--show-prefix"))
        top, below = map(Path, found.split("\n")[:2])
        folder = _new_folder() / top.name
        try:
            await _git(cwd, "worktree", "add", "--quiet", "--detach", os.fspath(folder), base)
        except BaseException:
            await _remove(top, folder)  # an interrupt may come when git has registered it
            raise
        made = Worktree(top, folder, base, below)
        made.cwd.mkdir(parents=True, exist_ok=True)  # a directory without committed files
        return made

    async def diff(self) -> tuple[str, list[FileChange]]:
        """Return all changes since the base commit, new files and commits included."""
        await _git(self.folder, "add", "--all")
        options = ("--cached", "--no-ext-diff", "--no-textconv", self._base)
        text = await _git(self.folder, "diff", *options)
        rows = (await _git(self.folder, "diff", "--numstat", "-z", "--no-renames", *options)).split(
            b"\0"
        )
        return text.decode("utf-8", "replace"), [_change(row) for row in rows if row]

    async def remove(self) -> None:
        """Remove the worktree and what is in it."""
        await _remove(self._repository, self.folder)


async def _remove(repository: Path, folder: Path) -> None:
    """Remove a worktree, also one that git has not finished, and the temporary folder around it."""
    try:
        # Twice: git locks a worktree while it adds it.
        await _git(repository, "worktree", "remove", "--force", "--force", os.fspath(folder))
    except GitError:
        shutil.rmtree(folder, ignore_errors=True)
        await _git(repository, "worktree", "prune")
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="accord-compare-")).resolve()


def _change(row: bytes) -> FileChange:
    added, removed, path = row.split(b"\t", 2)
    counts = [int(count) if count.isdigit() else None for count in (added, removed)]
    return FileChange(path.decode("utf-8", "replace"), counts[0], counts[1])


async def _git(cwd: Path, *words: str) -> bytes:
    """Run git; raise `GitError` with its message if it fails."""
    environ = {name: value for name, value in os.environ.items() if name not in _REPOSITORY}
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *words,
            cwd=cwd,
            env=environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as exc:
        raise GitError(f"Cannot start git: {exc.strerror}") from None
    try:
        async with asyncio.timeout(_GIT_S):
            out, errors = await process.communicate()
    except BaseException:
        await _end(process)
        raise
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip() or f"status {process.returncode}"
        raise GitError(f"git {words[0]} failed: {said}")
    return out


async def _end(process: asyncio.subprocess.Process) -> None:
    """End git: SIGTERM first, on which it removes its lock files and what it has half made."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
