"""Where the repository and its tests are."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ("PYTHONPATH", "ROOT", "SOURCES", "TESTS")

ROOT = Path(__file__).parent.parent
TESTS = (ROOT / "tests", *sorted(ROOT.glob("packages/*/tests")))
"""The folders with the tests: of everything, and of each package."""
SOURCES = {
    path.parent.name: path.parent for path in sorted(ROOT.glob("packages/*/src/*/__init__.py"))
}
"""The folder of each import package."""
PYTHONPATH = os.pathsep.join(map(str, TESTS))
"""Lets a program import the helpers of all tests."""
