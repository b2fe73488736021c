"""What Linux tells about processes and about the machine itself."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

PROC = Path("/proc")


def cpu_s(pid: int | str = "self") -> float:
    """Return the CPU time of all threads of a process, in seconds."""
    total = 0
    for thread in (PROC / str(pid) / "task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[0])
        except OSError:
            continue  # the thread has ended
    return total / 1e9


def _megabytes(file: Path, key: str) -> float:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0.0  # the process has ended
    for line in lines:
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def memory_mb(pid: int | str = "self") -> float:
    """Return the resident memory of a process, in MiB."""
    return _megabytes(PROC / str(pid) / "status", "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """Return the highest resident memory since `reset_peak`, in MiB."""
    return _megabytes(PROC / str(pid) / "status", "VmHWM")


def share_mb(pid: int | str) -> float:
    """Return the memory of a process with shared pages divided among their users, in MiB."""
    return _megabytes(PROC / str(pid) / "smaps_rollup", "Pss")


def reset_peak(pid: int | str = "self") -> None:
    """Begin a new measurement of `peak_mb`."""
    (PROC / str(pid) / "clear_refs").write_text("5")


def children() -> list[int]:
    """Return the agents that this process has started, without Accord's guardian."""
    mine: list[int] = []
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == os.getpid() and not _is_guardian(stat.parent):
            mine.append(int(stat.parent.name))
    return mine


def descendants() -> list[int]:
    """Return all processes that this process has started, and those that they have started."""
    started: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        started.setdefault(int(after_name[1]), []).append(int(stat.parent.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = started.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _is_guardian(process: Path) -> bool:
    try:
        return b"guardian" in (process / "cmdline").read_bytes()
    except OSError:
        return False


class Meter:
    """Time, CPU and peak memory of this process and of its agent, from now on.

    `all_cpu_s` is the CPU of this process and of all that it has started, directly or not.
    """

    def __init__(self, agent: int) -> None:
        self.agent = agent
        reset_peak()
        reset_peak(agent)
        self._client_cpu, self._agent_cpu = cpu_s(), cpu_s(agent)
        self._all_cpu = {pid: cpu_s(pid) for pid in (os.getpid(), *descendants())}
        self._start = time.perf_counter()

    def read(self) -> dict[str, float]:
        """Return what has been used so far."""
        elapsed = time.perf_counter() - self._start
        return {
            "s": elapsed,
            "client_cpu_s": cpu_s() - self._client_cpu,
            "agent_cpu_s": cpu_s(self.agent) - self._agent_cpu,
            "all_cpu_s": sum(cpu_s(pid) - before for pid, before in self._all_cpu.items()),
            "client_peak_mb": peak_mb(),
            "agent_peak_mb": peak_mb(self.agent),
        }


def go_first(*pids: int) -> None:
    """Let these processes, and this one, have a processor before those of others."""
    try:
        for pid in (*pids, os.getpid()):
            Path(f"/proc/{pid}/autogroup").write_text("-20")
            os.setpriority(os.PRIO_PROCESS, pid, -15)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    except OSError:
        sys.stderr.write("Other programs delay what is measured here: root could prevent that\n")


def disturbance_ms() -> float:
    """Return how long a fixed piece of work takes: more than usual when others use the machine."""
    start = time.perf_counter()
    total = 0
    for i in range(300_000):
        total += i * i
    return (time.perf_counter() - start) * 1e3


def description() -> str:
    """Return processor, cores, memory and kernel in a line."""
    cpu = "unknown processor"
    for line in (PROC / "cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{cpu}, {os.cpu_count()} cores, {gigabytes:.0f} GiB, {system}"


def report(text: str, name: str, save: Path | None) -> None:
    """Print a page of results, with the remarks of that name, and write it to the file `save`."""
    remarks = Path(__file__).parent / f"REMARKS_{name}.md"
    if remarks.exists():
        text += "\n" + remarks.read_text("utf-8")
    print(text)
    if save is not None:
        save.write_text(text, "utf-8")
