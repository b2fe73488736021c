"""Entry points: Accord's own are found without `importlib.metadata`, others with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from accord.program import load_entry_point
from accord.version import __version__
from accord_terminal.sessions.cli import command


def test_own_entry_point_is_found() -> None:
    assert load_entry_point("accord.commands", "session", "accord_terminal") is command


def test_unknown_entry_point_is_none() -> None:
    assert load_entry_point("accord.commands", "nothing") is None
    assert load_entry_point("accord.nothing", "session") is None


def test_entry_point_of_another_distribution_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    (tmp_path / "other-1.dist-info" / "entry_points.txt").write_text(
        "[accord.commands]\nother = os.path:join\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert load_entry_point("accord.commands", "other") is os.path.join


def test_unreadable_file_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"accord_terminal-{__version__}.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_entry_point("accord.commands", "session", "accord_terminal") is command
