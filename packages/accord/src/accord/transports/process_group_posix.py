"""The members of a process group on POSIX."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from accord.transports.start_guardian import Mark

if sys.platform == "win32":
    raise ImportError("Windows has no process groups that can be killed")


CREATION_FLAGS = 0  # `start_new_session` suffices


def members_of(popen: subprocess.Popen[bytes], mark: Mark) -> PosixGroupMembers:
    return PosixGroupMembers(popen, mark)


def pidfd_of(pid: int) -> int:
    """Return a descriptor that an event loop can poll; raise `OSError` if there is none."""
    if sys.platform == "linux":
        return os.pidfd_open(pid)
    raise OSError("Only Linux has pidfds")


class PosixGroupMembers:
    """A POSIX process group, whose number is the pid of its leader; see `GroupMembers`."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: Mark) -> None:
        self.takes_strays = False
        self._popen = popen
        self._number = popen.pid
        self._mark = mark

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)
        self._signal_strays(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._signal_strays(signal.SIGKILL)

    def alive(self) -> bool:
        return self._group_alive() or bool(self._strays())

    def _strays(self) -> list[int]:
        return self._mark.bearers(self._number) if self.takes_strays else []

    def _signal_strays(self, number: int) -> None:
        for pid in self._strays():
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _group_alive(self) -> bool:
        if not self._signal(0):
            return False
        # In a container, orphans may never be reaped: zombies do not count.
        states = _states_on_linux(self._number)
        return states is None or bool(states - {"Z", "X"})

    def status(self) -> int | None:
        if self._popen.returncode is None and sys.platform == "linux":
            try:
                info = os.waitid(os.P_PID, self._number, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return None  # another thread has reaped it
            if info is not None:
                return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        return self._popen.poll()

    def wait(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._number, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()  # on macOS only recent Python versions can wait without reaping

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._number, number)
        except (ProcessLookupError, PermissionError):
            return False  # empty, or of another user; macOS: zombies
        return True


def _states_on_linux(group: int) -> set[str] | None:
    """Return the states of all processes of a group; None if they are unknown."""
    states: set[str] = set()
    try:
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    for entry in entries:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain any character.
            state, _, number = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(number) == group:
                states.add(state)
    return states if entries else None
