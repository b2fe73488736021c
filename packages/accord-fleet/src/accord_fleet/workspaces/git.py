"""Runs git so that nothing of a repository is executed and nothing waits for a user.

`GitMirrors` has one bare copy of each repository on this machine, and makes working trees of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import filelock
import platformdirs

from accord.local.run import kill_process
from accord.text.excerpt import one_line
from accord.text.secrets import plain_url, redacted_text
from accord_fleet.types import AttemptFailed


class WorkspaceError(AttemptFailed):
    """A workspace cannot be prepared; the message names what was expected and what came."""

    def __init__(self, message: str) -> None:
        super().__init__("workspace", message)


GIT_TIMEOUT_S = 120.0
_CHUNK = 64 * 1024
_STDERR_BYTES = 8 * 1024
# Protocols that fetch; `ext::` would run a command.
_PROTOCOLS = "file:git:http:https:ssh"
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "protocol.ext.allow=never",
)


class GitOutput(NamedTuple):
    """What git wrote; `cut` is set if stdout was longer than the limit."""

    stdout: bytes
    cut: bool


def has_git() -> bool:
    """Return whether git is installed."""
    return shutil.which("git") is not None


async def git(
    *args: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    user_config: bool = False,
    stdin: bytes = b"",
    limit_bytes: int | None = None,
    allowed: Sequence[int] = (0,),
    timeout_s: float = GIT_TIMEOUT_S,
) -> GitOutput:
    """Run git; its process group is killed at the timeout and if the caller is cancelled.

    `user_config` reads the user's configuration, for credentials and proxies. Raises
    `WorkspaceError` for an exit status that is not in `allowed`.
    """
    program = shutil.which("git")
    if program is None:
        raise WorkspaceError("git is not installed: workspaces of git repositories need it")
    configured = [part for setting in (*_SETTINGS, *settings) for part in ("-c", setting)]
    process = await asyncio.create_subprocess_exec(
        program,
        *configured,
        *args,
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=_environment(env or {}, user_config),
        start_new_session=True,
    )
    reading = asyncio.gather(
        _feed(process, stdin),
        _read(process, process.stdout, limit_bytes),
        _last_bytes(process.stderr),
    )
    try:
        async with asyncio.timeout(timeout_s):
            _, (stdout, cut), errors = await reading
            status = await process.wait()
    except TimeoutError:
        raise WorkspaceError(f"{_named(args)} took more than {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            _kill(process)
            ending = kill_process(process)  # which also reads the rest of the output
            await asyncio.shield(asyncio.gather(reading, ending, return_exceptions=True))
    if status not in allowed and not cut:
        why = errors.decode("utf-8", "replace").strip() or f"exit status {status}"
        raise WorkspaceError(f"{_named(args)}: {redacted_text(one_line(why))}")
    return GitOutput(stdout, cut)


def _named(args: Sequence[str]) -> str:
    shown = [arg for arg in args if not arg.startswith("--git-dir")][:2]
    return redacted_text(one_line(" ".join(("git", *shown)), 200))


def _environment(changes: Mapping[str, str], user_config: bool) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "LC_ALL": "C.UTF-8",
    }
    if not user_config:
        env["GIT_CONFIG_GLOBAL"] = os.devnull
    return env | dict(changes)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    try:
        process.stdin.write(data)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # git has ended; its status tells why
    finally:
        process.stdin.close()


async def _read(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, limit: int | None
) -> tuple[bytes, bool]:
    assert stream is not None
    kept = bytearray()
    cut = False
    while chunk := await stream.read(_CHUNK):
        if cut:
            continue  # the end of the process comes after all that it has written
        kept += chunk
        if limit is not None and len(kept) > limit:
            _kill(process)
            cut = True
    return bytes(kept[:limit] if cut else kept), cut


async def _last_bytes(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    kept = b""
    while chunk := await stream.read(_CHUNK):
        kept = (kept + chunk)[-_STDERR_BYTES:]
    return kept


def _kill(process: asyncio.subprocess.Process) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass


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
