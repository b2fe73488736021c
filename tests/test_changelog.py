"""Fragments can be rendered, and the changelog has the notes of this version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from accord import __version__

ROOT = Path(__file__).parent.parent
FRAGMENTS = sorted(file for file in (ROOT / "changelog.d").glob("*.md") if file.name != "README.md")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]


def test_every_fragment_has_a_known_kind() -> None:
    kinds = {kind["directory"] for kind in CONFIG["type"]}
    for file in FRAGMENTS:
        assert file.name.split(".")[1] in kinds, file.name
        assert file.read_text("utf-8").strip(), file.name


def test_changelog_has_the_notes_of_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert CONFIG["start_string"] in changelog
    assert re.search(rf"^## {re.escape(__version__)} \(", changelog, re.MULTILINE)


@pytest.mark.skipif(find_spec("towncrier") is None, reason="towncrier is not installed")
def test_towncrier_renders_the_fragments() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "## next (" in done.stdout
    for file in FRAGMENTS:
        assert " ".join(file.read_text("utf-8").split())[:60] in " ".join(done.stdout.split())
