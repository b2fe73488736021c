"""Each test has a store of sessions of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator

import pytest

from forked import Popen, forked_programs
from sessions_named.machine import Machine, new_machine


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
    with new_machine(monkeypatch) as found:
        yield found
