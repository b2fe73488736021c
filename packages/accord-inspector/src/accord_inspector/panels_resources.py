"""Memory and processor time of the agent's processes, and their environment."""

from __future__ import annotations

from collections import deque

import psutil
from msgspec import Struct

from accord.text.redact import MASK

_SAMPLES = 900  # kept: 15 minutes at one per second
# Variables whose values are shown: places and languages, which are not secret.
_SHOWN = frozenset(
    ("PATH", "HOME", "PWD", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME")
)


class Sample(Struct):
    """A measurement: seconds since the start, resident bytes, and per cent of one processor."""

    at: float
    memory: int
    cpu: float
    processes: int


def redacted_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the names, and the values of those that are never secrets."""
    return {
        name: value if name in _SHOWN or name.startswith("LC_") else MASK
        for name, value in sorted(environment.items())
    }


class ResourceMeter:
    """Measures a process with all those that it started; `samples` are the latest."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self.environment: dict[str, str] = {}
        self._processes: dict[int, psutil.Process] = {}
        self._pid: int | None = None

    def watch(self, pid: int) -> None:
        """Measure this process from now on."""
        self._pid = pid
        self._processes.clear()
        self.environment = {}

    def measure(self, at: float) -> Sample | None:
        """Take a sample; None if the process does not run."""
        if self._pid is None:
            return None
        try:
            root = self._processes.get(self._pid) or psutil.Process(self._pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                return None
            if not self.environment:
                self.environment = redacted_environment(root.environ())
            running = [root, *root.children(recursive=True)]
        except psutil.Error:
            return None
        known = self._processes
        # The same objects again: processor time is counted since their last call.
        self._processes = {one.pid: known.get(one.pid, one) for one in running}
        memory, cpu, count = 0, 0.0, 0
        for process in self._processes.values():
            try:
                with process.oneshot():
                    memory += process.memory_info().rss
                    cpu += process.cpu_percent()
                    count += 1
            except psutil.Error:
                continue
        sample = Sample(at, memory, round(cpu, 1), count)
        self.samples.append(sample)
        return sample
