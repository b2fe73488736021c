"""Stops started processes when this process ends: a guardian process, and marks to find them.

The guardian is one small process for all processes that this one starts; it is started with the
first command. See `accord.transports.guardian`. Windows does not need it: there a job object ends
with its owner.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Literal

from accord.transports import guardian

# In the environment of every started process, to find those that have left their group. A program
# that shall outlive this process removes it from its environment.
MARK_VARIABLE = "ACCORD_STARTED_BY"
_SCAN_ALL_S = 60.0  # after this time pids may have been reused

_GUARDS = sys.platform != "win32"


class _Owner:
    """This process: its name, its guardian, and the groups that the guardian knows."""

    def __init__(self) -> None:
        self.name = os.urandom(8).hex()
        self.numbers = itertools.count(1)
        self.guarded: dict[str, bytes] = {}
        self.pipe = -1
        self.guardian = 0


_owner = _Owner()


class Mark:
    """The name of a child: "a" for an agent or "c" for a command, and a number."""

    def __init__(self, kind: Literal["a", "c"]) -> None:
        self.owner: str = _owner.name
        self.name: str = f"{kind}{next(_owner.numbers)}"
        self.is_released = False
        self._made = time.monotonic()

    def environment(self, env: dict[str, str] | None) -> dict[str, str] | None:
        """Return an environment with this mark, after the marks of the processes above."""
        if not _GUARDS:
            return env
        marked = dict(os.environ) if env is None else env
        before = marked.get(MARK_VARIABLE, os.environ.get(MARK_VARIABLE, ""))
        return {**marked, MARK_VARIABLE: f"{before}{self.owner}.{self.name},"}

    def bearers(self, leader: int) -> list[int]:
        """Return the running processes with this mark; they may have left the group."""
        if sys.platform != "linux":
            return []
        found = guardian.marked_processes(self.owner, self._candidates(leader))
        return [pid for pid, names in found.items() if self.name in names]

    def _candidates(self, leader: int) -> list[int] | None:
        """Return the processes that may have been started after the leader, by their pids."""
        if time.monotonic() - self._made > _SCAN_ALL_S:
            return None
        try:
            last = int(Path("/proc/loadavg").read_text("ascii").split()[-1])
            pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
        except (OSError, ValueError, IndexError):
            return None
        if last >= leader:
            return [pid for pid in pids if leader <= pid <= last]
        return [pid for pid in pids if pid >= leader or pid <= last]

    def release(self) -> None:
        """Remove the mark from the guardian: its processes have ended."""
        self.is_released: bool = True
        if self.owner == _owner.name and _owner.guarded.pop(self.name, None) is not None:
            _send(f"- {self.name}\n".encode())


def guard(mark: Mark, group: int, leave_s: float, terminate_s: float) -> None:
    """Let the guardian stop a group when this process ends, unless the mark was released."""
    if not _GUARDS or mark.is_released or mark.owner != _owner.name:
        return
    line = f"+ {mark.name} {group} {_began(group)} {leave_s} {terminate_s}\n".encode()
    _owner.guarded[mark.name] = line
    start_guardian()
    _send(line)


def start_guardian() -> None:
    """Start the guardian of this process, unless it is running or cannot run here."""
    if not _GUARDS or _is_guarded():
        return
    python, script = sys.executable, guardian.__file__
    if getattr(sys, "frozen", False) or not _is_python(python) or not Path(script).is_file():
        return  # a program with an embedded Python
    theirs, ours = os.pipe()
    try:
        os.set_blocking(ours, False)
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        command = [python, "-I", "-S", script, _owner.name]
        try:
            pid = os.posix_spawn(python, command, os.environ, file_actions=actions, setsid=True)
        except NotImplementedError:  # an old C library
            pid = os.posix_spawn(python, command, os.environ, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(ours)
        return
    finally:
        os.close(theirs)
    _owner.pipe, _owner.guardian = ours, pid
    for line in _owner.guarded.values():
        _send(line)


def _is_guarded() -> bool:
    if _owner.guardian == 0:
        return False
    try:
        if os.waitpid(_owner.guardian, os.WNOHANG) == (0, 0):
            return True
    except ChildProcessError:
        pass  # another thread has reaped it
    os.close(_owner.pipe)
    _owner.pipe, _owner.guardian = -1, 0
    return False


def _is_python(path: str | None) -> bool:
    return bool(path) and Path(path or "").name.lower().startswith(("python", "pypy"))


def _send(line: bytes) -> None:
    """Send a line to the guardian; never block if it does not read."""
    if _owner.pipe >= 0:
        with contextlib.suppress(OSError):
            os.write(_owner.pipe, line)


def _began(pid: int) -> str:
    """Return the start time of a process in ticks, or an empty text if it is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _forget() -> None:
    """Forget the guardian and the groups after a fork: they belong to the parent."""
    global _owner
    pipe, _owner = _owner.pipe, _Owner()
    if pipe >= 0:
        with contextlib.suppress(OSError):
            os.close(pipe)


if _GUARDS:
    os.register_at_fork(after_in_child=_forget)
