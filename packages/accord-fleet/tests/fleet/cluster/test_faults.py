"""Workers, nodes and drivers are killed: every task has exactly one result."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from accord_fleet.dataset.dataset import Dataset

TASKS = 2000
DRIVER = Path(__file__).parent / "programs" / "driver.py"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Driver:
    """A driver of the run; read its results line by line.

    It takes only the results that are read, and at most 64 more: on a fast machine it would
    otherwise finish the run while the cluster notices the death of a node.
    """

    def __init__(self, address: str, folder: Path) -> None:
        command = [sys.executable, str(DRIVER), address, str(folder), str(TASKS)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.count = 0
        self.workers: set[int] = set()
        self.killed: set[int] = set()

    def read(self, number: int) -> None:
        """Read so many results."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n" * number)
        self._process.stdin.flush()
        for _ in range(number):
            line = self._process.stdout.readline()
            assert line, f"the driver ended with {self._process.wait()} after {self.count} results"
            self.workers.add(int(line))
            self.count += 1

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def read_all(self) -> None:
        """Read the rest; the driver must succeed."""
        rest, _ = self._process.communicate()
        self.count += len(rest.splitlines())
        assert self._process.returncode == 0


def kill_worker(driver: Driver, rng: random.Random) -> None:
    """Kill a process that has run attempts of this driver.

    What the killed ones had finished may be read long after their end.
    """
    worker = rng.choice(sorted(driver.workers - driver.killed))
    driver.killed.add(worker)
    driver.workers.clear()
    os.kill(worker, signal.SIGKILL)


def test_killed_workers_nodes_and_drivers_lose_nothing(ray_cluster: Any, tmp_path: Path) -> None:
    rng = random.Random(14)
    first = Driver(ray_cluster.address, tmp_path)
    for _ in range(3):
        first.read(rng.randrange(100, 200))
        kill_worker(first, rng)
    first.read(rng.randrange(50, 150))
    ray_cluster.kill_node()
    first.read(rng.randrange(100, 200))
    first.kill()

    second = Driver(ray_cluster.address, tmp_path)
    ray_cluster.add_node()
    second.read(rng.randrange(100, 200))
    kill_worker(second, rng)
    second.read_all()

    results = list(Dataset.open(tmp_path / "run").results())
    assert Counter(result.status for result in results) == {"finished": TASKS}
    assert {result.task: result.answer for result in results} == {
        f"t{index}": f"Prompt {index}" for index in range(TASKS)
    }
    # What a killed process had in hand was repeated, and nothing else: at most one attempt for
    # each worker, and what the killed driver had received and not stored (up to 64 that are being
    # written, 16 that wait for this, and those of its slots).
    starts = Counter((tmp_path / "starts").read_text().split())
    assert len(starts) == TASKS
    assert sum(starts.values()) - TASKS < 100
