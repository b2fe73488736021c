"""What is known to be broken: a project goes forward from there, and never back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from accord_conformance.rules.manifest import requirements

__all__ = ("Known", "read_baseline", "write_baseline")

# Rules with the version in which they are broken.
Known: TypeAlias = set[tuple[str, int]]

_LINE = re.compile(r"(R-[A-Z]+-\d+) v([12])")


def read_baseline(path: Path) -> Known:
    """Read a file of known breaks; raise `OSError` or `ValueError`."""
    known: Known = set()
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected UTF-8") from None
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        found = _LINE.fullmatch(words)
        if found is None:
            raise ValueError(f"{path}, line {number}: expected a rule and a version: R-GEN-03 v1")
        if found[1] not in requirements():
            raise ValueError(f"{path}, line {number}: there is no rule {found[1]}")
        known.add((found[1], int(found[2])))
    return known


def write_baseline(path: Path, broken: Iterable[tuple[str, int]]) -> None:
    """Write a file of known breaks."""
    lines = ["# Rules that are known to be broken: `accord check` does not fail for these."]
    lines += [f"{rule} v{version}" for rule, version in sorted(broken)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
