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
from typing import Protocol, TypeAlias

from accord.transports.guarding import Mark, guard

if sys.platform == "win32":
    from accord.transports.process_group_windows import CREATION_FLAGS, members_of, pidfd_of
else:
    from accord.transports.process_group_posix import CREATION_FLAGS, members_of, pidfd_of

__all__ = ("CREATION_FLAGS", "GroupMembers", "ProcessGroup", "StopTimes", "exit_text")

log = logging.getLogger("accord.transports")

# Seconds to leave by itself, to obey the request to terminate, to be gone when killed.
StopTimes: TypeAlias = tuple[float, float, float]

_POLL_S = 0.02  # nobody tells about the end of a process that is not our child
_REAP_S = 1.0
# An agent is told of our end by that of its stdin; that it is ended if it does not obey can wait
# until it has been started.
_GUARD_AGENT_AFTER_S = 1.0


class GroupMembers(Protocol):
    """The leader and the others, as the operating system knows them."""

    takes_strays: bool  # whether those count too that have left the group

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def alive(self) -> bool:
        """Whether somebody is left; asked after the leader has been reaped."""
        ...

    def status(self) -> int | None:
        """The exit status of the leader, which has gone; as `Popen` has it, None if unknown."""
        ...

    def wait(self) -> None:
        """Wait for the leader in a thread; leave it to be reaped if possible."""
        ...


class ProcessGroup:
    """The group of a child that was started with `start_new_session` and a mark.

    The leader's exit is watched, but it is not reaped before the group has got its last
    signal: as long as it is there, dead or alive, its number cannot belong to somebody else.
    When this object is lost or the interpreter exits, the group is killed; when we are killed
    ourselves, the guardian ends it within some seconds (on Windows the system does, at once).

    On Linux, processes that have left the group (`setsid`, a double fork) are found by the mark
    in their environment. Those of a command are always ended. Those of an agent are ended
    unless it has left by itself: a browser that it has opened for the user, say, goes on. Out of
    reach are programs that have another environment (`env -i`, `sudo`, what a system service
    starts), and on macOS all that leave the group.
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
        self._guarding: asyncio.TimerHandle | None = None
        self._watch()

    def guard_command(self, stop_times_s: StopTimes) -> None:
        """Have it ended when we are gone, with all that it has started."""
        self._members.takes_strays = True
        guard(self._mark, self._popen.pid, *stop_times_s[:2])

    def guard_agent(self, stop_times_s: StopTimes) -> None:
        """Have it ended when we are gone and it does not leave; from some time on."""
        # Not a method: a timer must not keep this object.
        self._guarding = self._loop.call_later(
            _GUARD_AGENT_AFTER_S, guard, self._mark, self._popen.pid, *stop_times_s[:2]
        )

    async def stop(self, stop_times_s: StopTimes) -> None:
        """Wait, terminate, kill, each for its time; the leader's stdin is closed by now."""
        leave_s, terminate_s, kill_s = stop_times_s
        try:
            if not await self._wait_for_leader(leave_s):
                self._members.takes_strays = True
            # A leader that has gone may have left others behind: they are asked as well.
            self._members.terminate()
            if not await self._wait_for_all(terminate_s):
                log.debug("x process %d does not obey, killing its group", self._popen.pid)
                self._members.kill()
                if not await self._wait_for_all(kill_s):
                    log.warning("! process %d survives being killed", self._popen.pid)
        finally:
            self._unwatch()
            if self._guarding is not None:
                self._guarding.cancel()
            self._kill()  # whoever is left, when we were cancelled

    def _watch(self) -> None:
        try:
            self._pidfd = pidfd_of(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._on_exit)
        except (OSError, NotImplementedError):
            self._unwatch()  # another system, an old kernel, a loop without readers
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
    """Return how a process ended, to go on after its name."""
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
        return  # a fork of us, whose children these are not
    if popen.returncode is None or members.alive():
        members.takes_strays = True
        members.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(_REAP_S)
    mark.release()
