"""One Ray cluster of several nodes on this machine, for all tests of this folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from accord.installed import install_command
from free_ports import free_ports

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(autouse=True)
def forks() -> None:
    """Start interpreters: libraries of Ray do not outlive a fork."""


class RayCluster:
    """A running cluster, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address, self.client_address, self.session = self._line().split()

    def add_node(self) -> None:
        self._command("add")

    def kill_node(self) -> None:
        """Kill the oldest node that is not the head."""
        self._command("kill")

    def kill_head(self) -> None:
        """Kill all processes of the head."""
        self._command("head")

    def kill_server_of_head(self) -> None:
        """Kill the process that knows the cluster; the nodes stay."""
        self._command("gcs")

    def _command(self, word: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        assert line, "the cluster did not start"
        return line


@contextlib.contextmanager
def running_cluster(python: str = sys.executable) -> Generator[RayCluster]:
    """Run a cluster of two nodes with two processors each."""
    if importlib.util.find_spec("ray") is None:
        if os.environ.get("ACCORD_REQUIRE_RAY"):
            pytest.fail("ray is not installed, and ACCORD_REQUIRE_RAY is set")
        pytest.skip(f"needs ray: {install_command('fleet')}")
    process = subprocess.Popen(
        [python, str(PROGRAMS / "cluster.py"), str(free_ports(1)[0])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ACCORD_FLEET_TEST_KEY": SECRET},
    )
    try:
        yield RayCluster(process)
    finally:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.stdout.close()
            process.wait()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """The cluster that tests share; they leave it with two nodes."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def own_cluster() -> Iterator[RayCluster]:
    """A cluster of one test, which may destroy it."""
    with running_cluster() as cluster:
        yield cluster


# Exists in the environment of the nodes only.
SECRET = "a-key-that-nobody-may-see-7f3a9c"


@pytest.fixture
def secret() -> str:
    """The value of the variable ACCORD_FLEET_TEST_KEY on the nodes."""
    return SECRET
