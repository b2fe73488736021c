"""A process and its descendants: watched, and all stopped at the end.

`ProcessGroup` is the group of one child. A `Mark` in the environment finds the processes that have
left it. If this process is killed, a guardian stops the groups: one small process for all, started
with the first command (`accord.transports.guardian`). Windows needs none: a job object ends there
with its owner.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from accord.transports import guardian

log: logging.Logger = logging.getLogger("accord.transports")

# Seconds for a process to exit, to exit after SIGTERM, to be gone after SIGKILL.
StopTimes: TypeAlias = tuple[float, float, float]

_POLL_S = 0.02  # the OS reports the exit of child processes only, so poll
_REAP_S = 1.0


class GroupMembers(Protocol):
    """The processes of a group, through the operating system."""

    takes_strays: bool  # whether processes that have left the group count, too

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def alive(self) -> bool:
        """Whether a process is left; called after the leader has been reaped."""
        ...

    def status(self) -> int | None:
        """Return the exit status of the exited leader in the form of `Popen`; None if unknown."""
        ...

    def wait(self) -> None:
        """Wait for the leader to exit, in a thread; if possible, without reaping it."""
        ...


class ProcessGroup:
    """The group of a child that was started with `start_new_session` and a mark.

    The leader is not reaped before the group has got its last signal: until then its pid cannot be
    reused. When this object is garbage-collected or the interpreter exits, the group is killed. If
    this process is killed, the guardian stops the group within seconds; on Windows the system does
    so immediately.

    On Linux, processes that have left the group (`setsid`, a double fork) are found by the mark in
    their environment. Those of a command are always stopped. Those of an agent are stopped unless
    the agent exited without being signalled: a browser that it opened for the user keeps running.
    Programs with another environment (`env -i`, `sudo`, system services) cannot be found, nor on
    macOS any process that has left the group.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes], mark: Mark
    ) -> None:
        self.exited: asyncio.Future[int | None] = loop.create_future()
        self._loop = loop
        self._popen = popen
        self._mark = mark
        self._members: GroupMembers = members_of(popen, mark)
        self._kill = weakref.finalize(self, _kill_now, popen, self._members, mark, os.getpid())
        self._pidfd = -1
        self._watch()

    def guard_command(self, stop_times_s: StopTimes) -> None:
        """Let the guardian stop the group and its descendants when this process ends."""
        self._members.takes_strays = True
        guard(self._mark, self._popen.pid, *stop_times_s[:2])

    def guard_agent(self, stop_times_s: StopTimes) -> None:
        """Let the guardian stop the group if it outlives this process.

        An agent notices the end of this process by the end of its stdin, unless it ignores it.
        """
        guard(self._mark, self._popen.pid, *stop_times_s[:2])

    async def stop(self, stop_times_s: StopTimes) -> None:
        """Wait, terminate, and kill, each for its time; the leader's stdin is closed already."""
        leave_s, terminate_s, kill_s = stop_times_s
        try:
            if not await self._wait_for_leader(leave_s):
                self._members.takes_strays = True
            # Other processes may have outlived the leader: terminate them, too.
            self._members.terminate()
            if not await self._wait_for_all(terminate_s):
                log.debug("x process %d does not exit, killing its group", self._popen.pid)
                self._members.kill()
                if not await self._wait_for_all(kill_s):
                    log.warning("! process %d survives being killed", self._popen.pid)
        finally:
            self._unwatch()
            self._kill()  # the remaining processes, if this task was cancelled

    def _watch(self) -> None:
        try:
            self._pidfd = pidfd_of(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._on_exit)
        except (OSError, NotImplementedError):
            self._unwatch()  # another OS, an old kernel, or an event loop without readers
            threading.Thread(
                target=_wait_in_thread,
                args=(self._members, self._loop, weakref.ref(self)),
                name="accord waits for a process",
                daemon=True,
            ).start()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _on_exit(self) -> None:
        self._unwatch()
        if not self.exited.done():
            status = self._members.status()
            log.debug("= process %d %s", self._popen.pid, exit_text(status))
            self.exited.set_result(status)

    async def _wait_for_leader(self, timeout_s: float) -> bool:
        await asyncio.wait([self.exited], timeout=timeout_s)
        return self.exited.done()

    async def _wait_for_all(self, timeout_s: float) -> bool:
        """Wait for the leader, reap it, and wait for the others."""
        deadline = self._loop.time() + timeout_s
        if not await self._wait_for_leader(timeout_s):
            return False
        self._popen.poll()
        while self._members.alive():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    @staticmethod
    def on_exit_in_thread(group: weakref.ref[ProcessGroup]) -> None:
        if (self := group()) is not None:
            self._on_exit()


def exit_text(status: int | None) -> str:
    """Return how a process ended, as text that follows its name."""
    if status is None:
        return "ended"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _wait_in_thread(
    members: GroupMembers, loop: asyncio.AbstractEventLoop, group: weakref.ref[ProcessGroup]
) -> None:
    members.wait()
    with contextlib.suppress(RuntimeError):  # the loop has been closed
        loop.call_soon_threadsafe(ProcessGroup.on_exit_in_thread, group)


def _kill_now(
    popen: subprocess.Popen[bytes], members: GroupMembers, mark: Mark, owner: int
) -> None:
    if os.getpid() != owner:
        return  # a fork of this process, whose children these are not
    if popen.returncode is None or members.alive():
        members.takes_strays = True
        members.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(_REAP_S)
    mark.release()


# The members of a process group on POSIX.

if sys.platform == "win32":
    from accord.transports.process_group_windows import CREATION_FLAGS, members_of, pidfd_of
else:
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
