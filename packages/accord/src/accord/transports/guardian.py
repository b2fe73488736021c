"""A program that stops the processes that its owner has started, once the owner has ended.

The owner holds the other end of the pipe that is this program's stdin, and names process groups
there: `+ NAME GROUP BEGAN LEAVE TERMINATE` and `- NAME`. When the pipe ends, the owner has ended:
then each group has LEAVE seconds to exit, and TERMINATE seconds after SIGTERM, before it is killed.
On Linux, processes that have left their group are found, too: their environment has the name that
the owner gave them. This file is run by its path, without Accord and without `site`: it imports
only a little of the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_POLL_S = 0.05
_MAX_RUN_S = 60.0
# Seconds for processes that were started and not named yet; see `ProcessGroup`.
_LEAVE_S = {"a": 2.0, "c": 0.0}
_TERMINATE_S = 2.0


class _Target:
    """One group, and the processes with its name that have left it."""

    def __init__(self, name: str, group: int, began: str, leave_s: float, obey_s: float) -> None:
        self.group = group
        self._began = began
        # An agent that exits without a signal may leave processes running.
        self.takes_strays = name.startswith("c")
        self._leave_s = leave_s
        self._kill_s = leave_s + obey_s
        self._terminated: set[int] = set()

    def is_alive(self) -> bool:
        if self.group <= 0 or not _signal_group(self.group, 0):
            return False
        status = _status(self.group)
        if status is not None and self._began not in ("", status[3]):
            return False  # the pid was reused
        states = _states(self.group)
        return states is None or bool(states - {"Z", "X"})

    def end_group(self, passed_s: float) -> None:
        number = self._due(self.group, passed_s)
        if number is not None:
            self.takes_strays = True
            _signal_group(self.group, number)

    def end_stray(self, pid: int, passed_s: float) -> None:
        number = self._due(-pid, passed_s)
        if number is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _due(self, key: int, passed_s: float) -> int | None:
        if passed_s >= self._kill_s:
            return signal.SIGKILL
        if passed_s >= self._leave_s and key not in self._terminated:
            self._terminated.add(key)
            return signal.SIGTERM
        return None


def main() -> None:
    """Read stdin until the owner has ended, then stop its processes."""
    owner = sys.argv[1]
    os.closerange(3, 4096)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the owner
    targets: dict[str, _Target] = {}
    rest = b""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            match line.decode("ascii", "replace").split(" "):
                case ["+", name, group, began, leave_s, obey_s]:
                    targets[name] = _Target(name, int(group), began, float(leave_s), float(obey_s))
                case ["-", name]:
                    targets.pop(name, None)
                case _:
                    pass
    _end(owner, targets)


def _end(owner: str, targets: dict[str, _Target]) -> None:
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < _MAX_RUN_S:
        alive = False
        for target in targets.values():
            if target.is_alive():
                alive = True
                target.end_group(passed_s)
        for pid, names in marked_processes(owner).items():
            for name in names:
                target = targets.get(name)
                if target is None:
                    leave_s = _LEAVE_S.get(name[:1], 0.0)
                    target = targets[name] = _Target(name, 0, "", leave_s, _TERMINATE_S)
                    target.takes_strays = True
                if target.takes_strays:
                    alive = True
                    target.end_stray(pid, passed_s)
        if not alive:
            return
        time.sleep(_POLL_S)


def marked_processes(owner: str, pids: list[int] | None = None) -> dict[int, list[str]]:
    """Return the processes whose environment names an owner, with the names; only on Linux.

    `pids` are the processes to look at, all if None. Zombies are omitted: they have no environment.
    """
    found: dict[int, list[str]] = {}
    mark = f"{owner}.".encode()
    for pid in _all_pids() if pids is None else pids:
        try:
            fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
        except OSError:
            continue
        try:
            # The mark is one variable of the environment, which must be read completely.
            text = b""
            while data := os.read(fd, 1 << 17):
                text += data
        except OSError:
            continue
        finally:
            os.close(fd)
        if mark in text and pid != os.getpid():
            names = [part.partition(b",")[0] for part in text.split(mark)[1:]]
            found[pid] = [name.decode("ascii", "replace") for name in names]
    return found


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # pathlib is slow to import
    except OSError:
        return []


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def _states(group: int) -> set[str] | None:
    """Return the states of the members of a group; None if they are unknown."""
    statuses = [status for pid in _all_pids() if (status := _status(pid)) is not None]
    return {state for state, _, number, _ in statuses if number == str(group)} if statuses else None


def _status(pid: int) -> tuple[str, str, str, str] | None:
    """Return state, parent, group and start time of a process on Linux."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        words = os.read(fd, 4096).rpartition(b")")[2].decode("ascii").split()
        return words[0], words[1], words[2], words[19]
    except (OSError, IndexError):
        return None
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
