"""Folders of tests that nothing around them has an effect on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder: repositories, AGENTS.md and .gitignore above it do not count."""
    (tmp_path / ".git").mkdir()  # where ripgrep stops; git and the coder do at the ceiling
    ceilings = os.pathsep.join((str(tmp_path), os.path.realpath(tmp_path)))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", ceilings)
    folder = tmp_path / "here"
    folder.mkdir()
    return folder
