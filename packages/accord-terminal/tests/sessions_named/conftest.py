"""A store of sessions of its own for each test; its owners end with the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forked import STARTS, Popen, forked_programs
from sessions_named.machine import Machine


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start the programs of the tests by forks."""
    with forked_programs():
        yield


@pytest.fixture
def interpreters(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the programs of a test by new interpreters, as users do."""
    monkeypatch.setattr(subprocess, "Popen", Popen)
    machine.starts_interpreters = True


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[Machine, None, None]:
    """Return the sessions of a user, with short paths for the sockets."""
    base = Path(tempfile.mkdtemp(prefix="acc-", dir="/tmp")).resolve()
    for name in ("work", "run", "state", "config", "starts"):
        (base / name).mkdir()
    monkeypatch.setenv("ACCORD_STATE", str(base / "state"))
    monkeypatch.setenv("ACCORD_CONFIG", str(base / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
    monkeypatch.setenv(STARTS, str(base / "starts"))
    monkeypatch.chdir(base / "work")
    found = Machine(base)
    try:
        yield found
    finally:
        for process in found.started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for pid in found.owners():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(base, ignore_errors=True)
