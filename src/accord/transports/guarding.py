"""What we start is ended when we are gone: a guardian process knows it, a mark finds it again.

The guardian is one small process for all that a process starts, begun with the first command; see
`accord.transports.guardian` for what it does. Windows needs none: there a job object ends what it
has when its owner is gone.
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

__all__ = ("MARK_VARIABLE", "Mark", "guard", "start_guardian")

# In the environment of all that we start: by it those are found that have left their group. What
# shall outlive us on purpose takes it out of its environment.
MARK_VARIABLE = "ACCORD_STARTED_BY"
_SCAN_ALL_S = 60.0  # after so long the numbers of processes may have begun again

_GUARDS = sys.platform != "win32"


class _Owner:
    """This process: its name, its guardian, and what that knows."""

    def __init__(self) -> None:
        self.name = os.urandom(8).hex()
        self.numbers = itertools.count(1)
        self.guarded: dict[str, bytes] = {}
        self.pipe = -1
        self.guardian = 0


_owner = _Owner()


class Mark:
    """The name of one child: "a" for an agent, "c" for a command, and a number."""

    def __init__(self, kind: Literal["a", "c"]) -> None:
        self.owner = _owner.name
        self.name = f"{kind}{next(_owner.numbers)}"
        self.is_released = False
        self._made = time.monotonic()

    def environment(self, env: dict[str, str] | None) -> dict[str, str] | None:
        """Return an environment with this mark, after those of who started us."""
        if not _GUARDS:
            return env
        marked = dict(os.environ) if env is None else env
        before = marked.get(MARK_VARIABLE, os.environ.get(MARK_VARIABLE, ""))
        return {**marked, MARK_VARIABLE: f"{before}{self.owner}.{self.name},"}

    def bearers(self, leader: int) -> list[int]:
        """Return the living processes with this mark, which may have left the leader's group."""
        if sys.platform != "linux":
            return []
        found = guardian.marked_processes(self.owner, self._candidates(leader))
        return [pid for pid, names in found.items() if self.name in names]

    def _candidates(self, leader: int) -> list[int] | None:
        """Return those that were started after the leader, as far as their numbers say it."""
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
        """Its processes have ended: the guardian need not know them any more."""
        self.is_released = True
        if self.owner == _owner.name and _owner.guarded.pop(self.name, None) is not None:
            _send(f"- {self.name}\n".encode())


def guard(mark: Mark, group: int, leave_s: float, terminate_s: float) -> None:
    """Have a group ended when we are gone; a released mark is not guarded any more."""
    if not _GUARDS or mark.is_released or mark.owner != _owner.name:
        return
    line = f"+ {mark.name} {group} {_began(group)} {leave_s} {terminate_s}\n".encode()
    _owner.guarded[mark.name] = line
    start_guardian()
    _send(line)


def start_guardian() -> None:
    """Start the guardian of this process, unless it runs already or there can be none."""
    if not _GUARDS or _is_guarded():
        return
    python, script = sys.executable, guardian.__file__
    if getattr(sys, "frozen", False) or not _is_python(python) or not Path(script).is_file():
        return  # a program that brings Python along in itself
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
    """Tell the guardian; one that does not read, or is gone, must not stop us."""
    if _owner.pipe >= 0:
        with contextlib.suppress(OSError):
            os.write(_owner.pipe, line)


def _began(pid: int) -> str:
    """Return when a process began, in ticks; nothing where only its number is known."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _forget() -> None:
    """We are a fork: what the other has started, and its guardian, are not ours."""
    global _owner
    pipe, _owner = _owner.pipe, _Owner()
    if pipe >= 0:
        with contextlib.suppress(OSError):
            os.close(pipe)


if _GUARDS:
    os.register_at_fork(after_in_child=_forget)
