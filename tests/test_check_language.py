"""The check of the language finds phrases, and its baseline only falls."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TOOL = ROOT / "tools" / "check_language.py"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


def hits(tool: dict[str, Any], file: Path, text: str) -> list[tuple[str, int]]:
    file.write_text(text, "utf-8")
    return [(hit.name, hit.line) for hit in tool["hits_in"](file)]


def test_hits_in_comments_strings_and_docstrings(tool: dict[str, Any], tmp_path: Path) -> None:
    source = '"""Tell of it."""\nn = 1  # whoever\nx = f"is none {n}"\n'
    assert hits(tool, tmp_path / "a.py", source) == [("L06", 1), ("L03", 2), ("L02", 3)]


def test_wrapped_phrase_is_found_on_its_first_line(tool: dict[str, Any], tmp_path: Path) -> None:
    assert hits(tool, tmp_path / "a.py", "x = 1\n# one that goes\n# on\n") == [("L14", 2)]
    assert hits(tool, tmp_path / "a.md", "# T\n\nOne that\ngoes\n  on.\n") == [("L14", 4)]


def test_plain_english_is_not_a_hit(tool: dict[str, Any], tmp_path: Path) -> None:
    page = "There is no file. It is no longer open, and nobody else has it. Say `x, say, y`.\n"
    assert hits(tool, tmp_path / "a.md", page) == []


def test_wide_lines_of_prose_are_hits(tool: dict[str, Any], tmp_path: Path) -> None:
    wide = "word " * 25
    page = f"{wide}\n\n```text\n{wide}\n```\n\n| {wide} |\n"
    assert hits(tool, tmp_path / "a.md", page) == [("WIDE", 1)]


def test_more_hits_than_the_baseline_are_an_error(tool: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("Nobody is no friend.\n", "utf-8")
    found = list(tool["hits_in"](file))
    assert tool["compare"]({"L01": 1, "L04": 1}, found) == ([], [])
    errors, warnings = tool["compare"]({"L01": 1, "L04": 0}, found)
    assert [error.split()[1] for error in errors] == ["L04", "L04"]
    assert warnings == []


def test_weak_expressions_only_warn(tool: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("Tell whether it is so.\n", "utf-8")
    errors, warnings = tool["compare"]({}, list(tool["hits_in"](file)))
    assert errors == []
    assert warnings


def test_update_lowers_and_never_raises(tool: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("Nobody, nobody. Somebody.\n", "utf-8")
    lowered = tool["lower"]({"L04": 3, "L05": 0, "L06": 2}, list(tool["hits_in"](file)))
    assert (lowered["L04"], lowered["L05"], lowered["L06"]) == (2, 0, 0)


def test_baseline_has_every_expression(tool: dict[str, Any]) -> None:
    assert set(json.loads(tool["BASELINE"].read_text("utf-8"))) == set(tool["INSTEAD"])
    assert tool["WEAK"] < set(tool["EXPRESSIONS"])


@pytest.mark.slow  # `make lint` says the same
def test_no_expression_has_more_hits_than_the_baseline(tool: dict[str, Any]) -> None:
    found = [hit for file in tool["checked_files"](ROOT) for hit in tool["hits_in"](file)]
    errors, _ = tool["compare"](json.loads(tool["BASELINE"].read_text("utf-8")), found)
    assert errors == []
