"""Tests read no file outside of the repository, so they pass in any copy of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ABOVE = re.compile(r"(?:__file__\)(?:\.resolve\(\))?|\bHERE)((?:\.parent\b)+|\.parents\[(\d+)\])")


def levels_up(match: re.Match[str]) -> int:
    """Return how many directories above the file an expression leads."""
    steps = int(match[2]) + 1 if match[2] else match[1].count(".parent")
    return steps + ("HERE" in match[0])  # the directory of the file


def python_files(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        folders[:] = {*folders} - {"node_modules", ".venvs"}
        yield from (Path(path, name) for name in names if name.endswith(".py"))


def test_no_path_leads_above_the_root() -> None:
    outside = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for folder in ("tests", "packages", "docs", "benchmarks", "tools")
        for file in python_files(ROOT / folder)
        for match in ABOVE.finditer(file.read_text("utf-8"))
        if levels_up(match) > len(file.relative_to(ROOT).parts)
    ]
    assert outside == []


def test_paths_are_measured_from_the_file() -> None:
    found = [
        levels_up(match)
        for text in ("Path(__file__).parent.parent", "Path(__file__).parents[1]", "HERE.parents[0]")
        for match in ABOVE.finditer(text)
    ]
    assert found == [2, 2, 2]
