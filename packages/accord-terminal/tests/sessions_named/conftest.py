"""A store of sessions of its own for each test; its owners end with the test."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from sessions_named.machine import Machine


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[Machine, None, None]:
    """Return the sessions of a user, with short paths for the sockets."""
    base = Path(tempfile.mkdtemp(prefix="acc-", dir="/tmp")).resolve()
    for name in ("work", "run", "state", "config"):
        (base / name).mkdir()
    monkeypatch.setenv("ACCORD_STATE", str(base / "state"))
    monkeypatch.setenv("ACCORD_CONFIG", str(base / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "run"))
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
