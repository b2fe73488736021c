"""Processes: watch what they use, find what they have started, run a program to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from accord.local.command import Output
from accord.transports.command_line import environment, find_program, why_not_started
from accord.transports.process_group import (
    CREATION_FLAGS,
    Mark,
    ProcessGroup,
    exit_text,
    start_guardian,
)
from accord.transports.stdio import Reader, open_reader
from accord_fleet.types import LimitName, Limits

# Watch the memory and the number of all processes of each attempt.

_SHORTEST_S = 0.05
_LONGEST_S = 2.0
_SHARE = 0.01  # of one processor that scans may use
_MARK = b"ACCORD_STARTED_BY="
_KERNEL_THREADS = 2  # the parent of those, which have no environment
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Seen(NamedTuple):
    """One process in a scan."""

    pid: int
    parent: int
    group: int
    session: int
    began: int
    resident_bytes: int


class _Watched(msgspec.Struct, eq=False):
    root: int
    memory_bytes: int | None
    processes: int | None
    on_limit: Callable[[LimitName, str], None]
    mark: bytes
    began: float
    members: dict[int, int] = {}  # start times by pid: a process that was seen once stays
    used_bytes: int = 0
    used_at: float = 0.0


class ProcessWatcher:
    """Watches processes of attempts, in one scan for all of them.

    On Linux, a process belongs to an attempt if its parent does, if it is in the agent's process
    group or session, or if it has the mark that Accord gives to all that it starts. A process
    that removes its environment and leaves its parent between two scans is not found; in a sandbox
    there are no such processes. On other systems, children and their children are found.

    Scans are more frequent the sooner a limit may be reached, and use at most 1 % of a processor
    unless a scan takes more than 20 ms. Memory is resident memory; memory that processes share
    counts once where it decides.
    """

    def __init__(
        self, *, scan: Callable[[Iterable[int]], Mapping[int, Seen]] | None = None
    ) -> None:
        self.scans: int = 0
        self._scan = scan or processes_now
        self._watched: dict[int, _Watched] = {}
        self._known: dict[int, int] = {}  # start times of processes whose mark was read
        self._timer: asyncio.TimerHandle | None = None
        self._cost_s = 0.0

    @contextlib.contextmanager
    def watch(
        self, pid: int, limits: Limits, on_limit: Callable[[LimitName, str], None]
    ) -> Generator[None]:
        """Watch a process and all that it starts in the block.

        `on_limit` is called once, with the limit that is exceeded and a sentence that has what is
        used and allowed; the caller ends the processes.
        """
        if limits.memory_bytes is None and limits.processes is None:
            yield
            return
        now = asyncio.get_running_loop().time()
        mark = _mark_of(pid)
        watched = _Watched(pid, limits.memory_bytes, limits.processes, on_limit, mark, now)
        self._watched[pid] = watched
        self._plan(_SHORTEST_S)
        try:
            yield
        finally:
            self._watched.pop(pid, None)
            if not self._watched and self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._known.clear()

    def _plan(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._check_all)

    def _check_all(self) -> None:
        self._timer = None
        began = time.thread_time()  # of a busy machine, only what this takes itself
        now = asyncio.get_running_loop().time()
        self.scans += 1
        self._read_marks()
        seen = self._scan(self._watched)
        members = self._attribute(seen)
        until_s = _LONGEST_S
        for watched in tuple(self._watched.values()):
            reached, soon_s = self._check(watched, members[watched.root], now)
            until_s = min(until_s, soon_s)
            if reached is not None:
                del self._watched[watched.root]
                watched.on_limit(*reached)
        if self._watched:
            # One expensive scan, which reads the marks of new processes, delays nothing.
            before_s, self._cost_s = self._cost_s, time.thread_time() - began
            pause_s = min(before_s, self._cost_s) / _SHARE
            self._plan(min(max(until_s, pause_s, _SHORTEST_S), _LONGEST_S))

    def _read_marks(self) -> None:
        """Read the marks that could not be read before: while a program begins, it has none."""
        for watched in self._watched.values():
            if not watched.mark and (mark := _mark_of(watched.root)):
                watched.mark = mark
                self._known.clear()

    def _attribute(self, seen: Mapping[int, Seen]) -> dict[int, list[Seen]]:
        """Return the processes of each attempt."""
        owners: dict[int, int | None] = {}
        for root, watched in self._watched.items():
            owners[root] = root
            members = watched.members
            for pid in [pid for pid, began in members.items() if not _is_same(seen, pid, began)]:
                del members[pid]
            owners.update(dict.fromkeys(members, root))
        found: dict[int, list[Seen]] = {root: [] for root in self._watched}
        for pid, process in seen.items():
            owner = self._owner(pid, seen, owners)
            if owner is not None:
                found[owner].append(process)
                self._watched[owner].members[pid] = process.began
        return found

    def _owner(
        self, pid: int, seen: Mapping[int, Seen], owners: dict[int, int | None]
    ) -> int | None:
        """Return the attempt of a process, after that of its ancestors."""
        path: list[int] = []
        owner: int | None = None
        while pid not in owners and (process := seen.get(pid)) is not None:
            owners[pid] = None  # ends circles, which a scan that takes time can contain
            path.append(pid)
            leaders = (process.group, process.session)
            owner = next((leader for leader in leaders if leader in self._watched), None)
            if owner is None:
                owner = self._marked(process)
            if owner is not None:
                break
            pid = process.parent
        else:
            owner = owners.get(pid)
        owners.update(dict.fromkeys(path, owner))
        return owner

    def _marked(self, process: Seen) -> int | None:
        """Return the attempt whose mark a process has; it is read until there is an environment."""
        if self._known.get(process.pid) == process.began:
            return None
        environment = _environment(process.pid)
        if environment or process.parent == _KERNEL_THREADS:
            self._known[process.pid] = process.began
        if mark := _mark_in(environment):
            for root, watched in self._watched.items():
                if watched.mark and mark.startswith(watched.mark):
                    return root
        return None

    def _check(
        self, watched: _Watched, processes: list[Seen], now: float
    ) -> tuple[tuple[LimitName, str] | None, float]:
        """Return the limit that is exceeded, and the seconds in which one may be."""
        most = watched.processes
        if most is not None and len(processes) > most:
            text = f"The agent has {len(processes):,} processes, {most:,} are allowed"
            return ("processes", text), 0.0
        until_s = min(max(now - watched.began, _SHORTEST_S), _LONGEST_S)  # often at the start
        if most is not None and len(processes) > most // 2:
            until_s = _SHORTEST_S
        allowed = watched.memory_bytes
        if allowed is None:
            return None, until_s
        used = sum(process.resident_bytes for process in processes)
        if used > allowed and len(processes) > 1:
            used = sum(map(_own_bytes, processes))
        if used > allowed:
            text = (
                f"The agent and its children use {_mebibytes(used)} of memory,"
                f" {_mebibytes(allowed)} are allowed"
            )
            return ("memory_bytes", text), 0.0
        grown, passed_s = used - watched.used_bytes, now - watched.used_at
        watched.used_bytes, watched.used_at = used, now
        if grown > 0 and passed_s > 0:
            until_s = min(until_s, (allowed - used) / (grown / passed_s) / 2)
        if used > allowed / 2:
            until_s = min(until_s, 0.25)
        return None, until_s


def processes_now(roots: Iterable[int]) -> Mapping[int, Seen]:
    """Return the processes of this machine; on other systems than Linux, those below `roots`."""
    if not sys.platform.startswith("linux"):
        return _processes_of_psutil(roots)
    found: dict[int, Seen] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # a thousand paths cost more than the scan
        if name[0] in "123456789" and (process := _read(name)) is not None:
            found[process.pid] = process
    return found


def _read(name: str) -> Seen | None:
    try:
        fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    except OSError:
        return None  # it has ended
    try:
        data = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name in parentheses may contain any character. The fields after it begin with number 3.
    fields = data[data.rfind(b")") + 2 :].split(None, 23)
    if len(fields) < 23 or fields[0] in (b"Z", b"X"):
        return None
    return Seen(
        int(name),
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        int(fields[19]),
        int(fields[21]) * _PAGE,
    )


def _processes_of_psutil(roots: Iterable[int]) -> Mapping[int, Seen]:
    import psutil

    found: dict[int, Seen] = {}
    for root in roots:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(root)
            for process in (parent, *parent.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    pid, began = process.pid, int(process.create_time() * 1000)
                    size: int = process.memory_info().rss
                    found[pid] = Seen(pid, root if pid != root else 0, root, root, began, size)
    return found


def _is_same(seen: Mapping[int, Seen], pid: int, began: int) -> bool:
    process = seen.get(pid)
    return process is not None and process.began == began


def _own_bytes(process: Seen) -> int:
    """Return the memory of a process with its share of what it shares, in bytes."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # it has ended, or it is of another user
    return process.resident_bytes


def _mark_of(pid: int) -> bytes:
    return _mark_in(_environment(pid))


def _mark_in(environment: bytes) -> bytes:
    for entry in environment.split(b"\0"):
        if entry.startswith(_MARK):
            return entry[len(_MARK) :]
    return b""


def _environment(pid: int) -> bytes:
    """Return the environment of a process; it is empty for a moment while a program begins."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""  # another system, or it has ended


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


# Find the processes below a process.

_LINKS_OF_ONE = 3  # of the folder of the threads: two, and one for each


def descendants(pid: int) -> frozenset[int]:
    """Return the numbers of all processes below a process; none if it has ended."""
    if sys.platform != "linux":
        import psutil

        with suppress(psutil.Error):
            return frozenset(child.pid for child in psutil.Process(pid).children(recursive=True))
        return frozenset()
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop()) - found
        found |= children
        waiting += children
    return frozenset(found)


def _children(pid: int) -> set[int]:
    """Return the children, which Linux lists by the thread that has started them."""
    found: set[int] = set()
    # Paths as texts: this runs after each attempt.
    folder = f"/proc/{pid}/task"
    with suppress(OSError):
        is_one = os.stat(folder).st_nlink == _LINKS_OF_ONE  # noqa: PTH116
        for thread in (pid,) if is_one else os.listdir(folder):  # noqa: PTH208
            with suppress(OSError), open(f"{folder}/{thread}/children", "rb", 0) as file:  # noqa: PTH123
                found.update(map(int, file.read().split()))
    return found


# Run a program until it ends, with bounds for its time and its output.

_STOP_TIMES_S = (0.0, 1.0, 2.0)
_LEFT_OPEN_S = 0.25  # for output that others hold open after the program has ended


class Ended(NamedTuple):
    """How a program ended, and the end of its output."""

    status: int | None
    """The exit status; negative for a signal."""
    timed_out: bool
    stdout: str
    stderr: str

    def describe(self) -> str:
        """Return how it ended, for a message."""
        return exit_text(self.status)


async def run_child(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes = b"",
    timeout_s: float,
    output_bytes: int,
) -> Ended:
    """Run a program; it and what it started are stopped at the timeout, and when it has ended.

    It is also stopped if the caller is cancelled or this process ends. `output_bytes` is the limit
    for each of stdout and stderr, of which the end is kept. Raises `StartError`.
    """
    loop = asyncio.get_running_loop()
    start_guardian()  # first, so that it knows this process whenever that is killed
    mark = Mark("c")
    popen, fds = _spawn(argv, cwd, environment(env), mark, stdin)
    group = ProcessGroup(loop, popen, mark)
    group.guard_command(_STOP_TIMES_S)
    outputs = Output(output_bytes), Output(output_bytes)
    ends = [loop.create_future() for _ in fds]
    readers = [
        open_reader(loop, fd, output.add, _resolver(end))
        for fd, output, end in zip(fds, outputs, ends, strict=True)
    ]
    timed_out = False
    try:
        done, _ = await asyncio.wait([group.exited], timeout=timeout_s)
        timed_out = not done
    finally:
        await asyncio.shield(_finish(group, readers, ends))
    status = group.exited.result() if group.exited.done() else None
    return Ended(status, timed_out, outputs[0].text(), outputs[1].text())


async def _finish(
    group: ProcessGroup, readers: list[Reader], ends: list[asyncio.Future[None]]
) -> None:
    await group.stop(_STOP_TIMES_S)
    _, late = await asyncio.wait(ends, timeout=_LEFT_OPEN_S)
    if late:
        for reader in readers:
            reader.end_when_empty()
        await asyncio.wait(late, timeout=_LEFT_OPEN_S)
    for reader in readers:
        await reader.aclose()


def _resolver(end: asyncio.Future[None]) -> Callable[[OSError | None], None]:
    def ended(_: OSError | None) -> None:
        if not end.done():
            end.set_result(None)

    return ended


def _spawn(
    argv: Sequence[str], cwd: str, env: dict[str, str] | None, mark: Mark, stdin: bytes
) -> tuple[subprocess.Popen[bytes], list[int]]:
    program = find_program(argv[0], cwd, env)
    pipes = [os.pipe(), os.pipe()]
    try:
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            popen = subprocess.Popen(
                list(argv),
                executable=program,
                stdin=given,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                cwd=cwd,
                env=mark.environment(env),
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )
    except (OSError, ValueError) as error:
        for ours, _ in pipes:
            os.close(ours)
        raise why_not_started(argv[0], program, error) from error
    finally:
        for _, theirs in pipes:
            os.close(theirs)
    return popen, [ours for ours, _ in pipes]
