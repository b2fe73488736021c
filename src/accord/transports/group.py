"""A process and all that it has started: watched, and ended to the last member."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Protocol, TypeAlias

__all__ = ("Group", "StopTimes", "exit_text", "new_group")

log = logging.getLogger("accord.transports")

# Seconds to leave by itself, to obey the request to terminate, to be gone when killed.
StopTimes: TypeAlias = tuple[float, float, float]

_LOOK_AGAIN_S = 0.02  # nobody tells about the end of a process that is not our child
_REAP_S = 1.0


class Group:
    """The group of a child that was started with `new_group`.

    The leader's exit is watched, but it is not reaped before the group has got its last
    signal: as long as it is there, dead or alive, its number cannot belong to somebody else.
    Members that leave the group on purpose (`setsid`) are out of reach. When this object is
    lost or the interpreter exits, the group is killed. When we are killed ourselves, the end of
    its stdin is all that it gets to know; on Windows the system kills it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes]) -> None:
        self.exited: asyncio.Future[int | None] = loop.create_future()
        self._loop = loop
        self._popen = popen
        self._members = _members_of(popen)
        self._kill = weakref.finalize(self, _kill_now, popen, self._members, os.getpid())
        self._pidfd = -1
        self._watch()

    async def end(self, stop_times_s: StopTimes) -> None:
        """Wait, terminate, kill, each for its time; the leader's stdin is closed by now."""
        leave_s, terminate_s, kill_s = stop_times_s
        try:
            await self._leader_gone(leave_s)
            # A leader that has gone may have left others behind: they are asked as well.
            self._members.terminate()
            if not await self._all_gone(terminate_s):
                log.debug("x process %d does not obey, killing its group", self._popen.pid)
                self._members.kill()
                if not await self._all_gone(kill_s):
                    log.warning("! process %d survives being killed", self._popen.pid)
        finally:
            self._unwatch()
            self._kill()  # whoever is left, when we were cancelled

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._seen)
        except (AttributeError, OSError, NotImplementedError):
            self._unwatch()  # another system, an old kernel, a loop without readers
            threading.Thread(
                target=_wait_in_thread,
                args=(self._popen, self._loop, weakref.ref(self)),
                name="accord waits for a process",
                daemon=True,
            ).start()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _seen(self) -> None:
        self._unwatch()
        if not self.exited.done():
            status = _status(self._popen)
            log.debug("= process %d %s", self._popen.pid, exit_text(status))
            self.exited.set_result(status)

    async def _leader_gone(self, timeout_s: float) -> bool:
        await asyncio.wait([self.exited], timeout=timeout_s)
        return self.exited.done()

    async def _all_gone(self, timeout_s: float) -> bool:
        """Wait for the leader, reap it, and wait for the others."""
        deadline = self._loop.time() + timeout_s
        if not await self._leader_gone(timeout_s):
            return False
        self._popen.poll()
        while self._members.alive():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_LOOK_AGAIN_S)
        return True

    @staticmethod
    def seen_in_thread(group: weakref.ref[Group]) -> None:
        if (self := group()) is not None:
            self._seen()


def new_group() -> dict[str, bool | int]:
    """Return the arguments with which `Popen` makes the child the leader of a group."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def exit_text(status: int | None) -> str:
    """Return how a process ended, to go on after its name."""
    if status is None:
        return "ended"
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


class _Members(Protocol):
    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def alive(self) -> bool: ...


def _members_of(popen: subprocess.Popen[bytes]) -> _Members:
    if sys.platform == "win32":
        from accord.transports.job import Job

        return Job(popen)
    return _ProcessGroup(popen.pid)


class _ProcessGroup:
    """The members on POSIX."""

    def __init__(self, number: int) -> None:
        self._number = number

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def alive(self) -> bool:
        """Whether somebody is left, once the leader has been reaped."""
        if not self._signal(0):
            return False
        # In a container there may be nobody who reaps orphans: the dead count no more.
        states = _states_on_linux(self._number)
        return states is None or bool(states - {"Z", "X"})

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._number, number)
        except (ProcessLookupError, PermissionError):
            return False  # nobody, or nobody who would listen to us; macOS says so of the dead
        return True


def _states_on_linux(group: int) -> set[str] | None:
    """Return the states of all processes of a group; None where this cannot be known."""
    states: set[str] = set()
    try:
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    for entry in entries:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain anything.
            state, _, number = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(number) == group:
                states.add(state)
    return states if entries else None


def _status(popen: subprocess.Popen[bytes]) -> int | None:
    """Return the status of a child that has exited, without reaping it where that is possible."""
    if popen.returncode is None and hasattr(os, "waitid"):
        try:
            info = os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None  # somebody else has reaped it
        if info is not None:
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
    return popen.poll()


def _wait_in_thread(
    popen: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, group: weakref.ref[Group]
) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    else:
        popen.wait()
    with contextlib.suppress(RuntimeError):  # the loop has been closed
        loop.call_soon_threadsafe(Group.seen_in_thread, group)


def _kill_now(popen: subprocess.Popen[bytes], members: _Members, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of us, whose children these are not
    if popen.returncode is None or members.alive():
        members.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(_REAP_S)
