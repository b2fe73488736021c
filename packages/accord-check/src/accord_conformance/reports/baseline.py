"""The baseline: the rules that are known to fail, so that only new failures count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from accord_conformance.rules.manifest import requirements

# Rules with the version in which they fail.
Known: TypeAlias = set[tuple[str, int]]

_LINE = re.compile(r"(R-[A-Z]+-\d+) v([12])")


def read_baseline(path: Path) -> Known:
    """Read a baseline; raise `OSError` or `ValueError`."""
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
            raise ValueError(f"{path}, line {number}: unknown rule {found[1]}")
        known.add((found[1], int(found[2])))
    return known


def write_baseline(path: Path, broken: Iterable[tuple[str, int]]) -> None:
    """Write a baseline."""
    lines = ["# Rules that are known to fail: `accord check` ignores these failures."]
    lines += [f"{rule} v{version}" for rule, version in sorted(broken)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
