"""Where the repository and its tests are."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ("PYTHONPATH", "ROOT", "TESTS")

ROOT = Path(__file__).parent.parent
TESTS = (ROOT / "tests", *sorted(ROOT.glob("packages/*/tests")))
"""The folders with the tests: of everything, and of each package."""
PYTHONPATH = os.pathsep.join(map(str, TESTS))
"""Lets a program import the helpers of all tests."""
