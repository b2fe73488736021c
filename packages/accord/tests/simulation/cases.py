"""The programs that failed once: each is a test now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from simulation.program import Program

__all__ = ("CASES", "Case", "cases")

CASES = Path(__file__).parent / "cases"


class Case(Struct, omit_defaults=True):
    """A minimized program, its failure, and the commit; the program contains the seed."""

    program: Program
    found: str
    commit: str = ""
    note: str = ""


def cases() -> Iterator[tuple[str, Case]]:
    """Return the cases by name."""
    for path in sorted(CASES.glob("*.json")):
        yield path.stem, msgspec.json.decode(path.read_bytes(), type=Case)
