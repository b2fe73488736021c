"""Watches the memory and the number of all processes of each attempt."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple

import msgspec

from accord_fleet.types.limits import LimitName, Limits

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
