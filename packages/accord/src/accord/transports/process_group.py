"""A process and its descendants: watched, and all stopped at the end."""

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
from typing import Protocol, TypeAlias

from accord.transports.start_guardian import Mark, guard

if sys.platform == "win32":
    from accord.transports.process_group_windows import CREATION_FLAGS, members_of, pidfd_of
else:
    from accord.transports.process_group_posix import CREATION_FLAGS, members_of, pidfd_of

__all__ = ("CREATION_FLAGS", "GroupMembers", "ProcessGroup", "StopTimes", "exit_text")

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
