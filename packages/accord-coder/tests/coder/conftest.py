"""Isolates the directories of the tests from those above them, and starts programs by forks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked import forked_programs


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start programs by forks; a module whose subject is the start itself has its own `forks`."""
    with forked_programs():
        yield


@pytest.fixture
def tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory; repositories, AGENTS.md and .gitignore above it have no effect."""
    (tmp_path / ".git").mkdir()  # ripgrep stops here; git and the coder stop at the ceiling
    ceilings = os.pathsep.join((str(tmp_path), os.path.realpath(tmp_path)))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", ceilings)
    folder = tmp_path / "here"
    folder.mkdir()
    return folder
