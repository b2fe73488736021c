"""Runs git so that nothing of a repository is executed and nothing waits for a user."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from accord.text.excerpt import one_line
from accord.text.secrets import redacted_text
from accord_fleet.workspaces.errors import WorkspaceError

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
            await asyncio.shield(asyncio.gather(reading, process.wait(), return_exceptions=True))
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
    while chunk := await stream.read(_CHUNK):
        kept += chunk
        if limit is not None and len(kept) > limit:
            _kill(process)
            return bytes(kept[:limit]), True
    return bytes(kept), False


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
