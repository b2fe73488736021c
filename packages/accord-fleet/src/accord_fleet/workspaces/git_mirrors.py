"""One bare copy of each git repository on this machine, and working trees at a commit of it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from pathlib import Path

import filelock
import platformdirs

from accord.text.secrets import plain_url
from accord_fleet.workspaces.errors import WorkspaceError
from accord_fleet.workspaces.git_command import git

_FETCH_S = 1800.0
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD = "refs/accord/HEAD"  # where the remote's HEAD is copied to
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", f"+HEAD:{_HEAD}")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = {}\n\tlogallrefupdates = true\n"


def default_cache() -> Path:
    """Return the folder of the mirrors of this user."""
    return platformdirs.user_cache_path("accord") / "fleet" / "git"


def make_repository(
    git_dir: Path, head: str, *, bare: bool = False, alternate: Path | None = None
) -> None:
    """Make a repository without hooks; it also has the objects of `alternate`."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (git_dir / folder).mkdir(parents=True, exist_ok=True)
    (git_dir / "HEAD").write_text(f"{head}\n", "utf-8")
    (git_dir / "config").write_text(_CONFIG.format(str(bare).lower()), "utf-8")
    if alternate is not None:
        alternates = git_dir / "objects" / "info" / "alternates"
        alternates.write_bytes(os.fsencode(alternate) + b"\n")


class GitMirrors:
    """The mirrors in a folder, shared by all processes of the user.

    A commit is resolved once: all attempts of this process use the same one, whatever is pushed.
    """

    def __init__(self, cache: Path) -> None:
        self.cache: Path = cache
        self._resolved: dict[tuple[str, str], str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def check_out(self, url: str, commit: str, root: Path) -> tuple[str, Path]:
        """Check out a commit in `root`; return its id, and the folder of the mirror's objects.

        The repository in `root` is its own: branches, configuration, hooks and commits of an agent
        stay in it. It shares the objects of the mirror, which it never writes. Submodules and
        files of Git LFS are not fetched. Raises `WorkspaceError`.
        """
        mirror = self._mirror(url)
        lock = self._locks.setdefault(url, asyncio.Lock())
        async with lock:
            sha = self._resolved.get((url, commit))
            if sha is None:
                sha = await self._resolve(url, commit, mirror)
                self._resolved[url, commit] = sha
        objects = mirror / "objects"
        git_dir = root / ".git"
        make_repository(git_dir, sha, alternate=objects)
        # HEAD is the commit already, and the folder is empty: all files are written.
        await git("read-tree", "-u", "--reset", sha, cwd=root, timeout_s=_FETCH_S)
        return sha, objects

    def _mirror(self, url: str) -> Path:
        digest = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        name = re.sub(r"[^\w.-]+", "-", plain_url(url).rpartition("/")[2])[:60].strip("-.")
        return self.cache / f"{name or 'repository'}-{digest}.git"

    async def _resolve(self, url: str, commit: str, mirror: Path) -> str:
        for text, what in ((url, "an address of a repository"), (commit, "a commit")):
            if not text or text.startswith("-") or "\0" in text:
                raise WorkspaceError(f"Expected {what}, got {text!r}")
        shown = plain_url(url)
        try:
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            async with filelock.AsyncFileLock(f"{mirror}.lock"):
                if not (mirror / "HEAD").exists():
                    make_repository(mirror, "ref: refs/heads/main", bare=True)
                is_sha = _SHA.fullmatch(commit) is not None
                if not is_sha or await self._find(mirror, commit) is None:
                    await self._fetch(mirror, url, *_REFS)
                found = await self._find(mirror, commit)
                if found is None and is_sha:
                    # On no branch or tag: many servers send it if it is asked for.
                    await self._fetch(mirror, url, commit)
                    found = await self._find(mirror, commit)
        except OSError as error:
            why = error.strerror or str(error)
            raise WorkspaceError(f"The mirror of {shown} at {mirror}: {why}") from error
        if found is None:
            raise WorkspaceError(f"Expected the commit {commit!r} in {shown}; it does not exist")
        return found

    async def _find(self, mirror: Path, commit: str) -> str | None:
        name = _HEAD if commit == "HEAD" else commit
        done = await git(
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{name}^{{commit}}",
            env={"GIT_DIR": str(mirror)},
            allowed=(0, 1, 128),
        )
        return done.stdout.decode().strip() or None

    async def _fetch(self, mirror: Path, url: str, *refs: str) -> None:
        await git(
            "fetch",
            "--quiet",
            "--prune",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--",
            url,
            *refs,
            env={"GIT_DIR": str(mirror)},
            user_config=True,
            timeout_s=_FETCH_S,
        )
