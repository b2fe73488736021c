"""Ties tests to the rules of the protocol, and lists the rules that no test names."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
NOT_OURS = {".venvs", "node_modules"}


class Rule(NamedTuple):
    """One rule: how strict, for whom, in which versions."""

    id: str
    level: str
    who: str
    versions: str


@cache
def rules() -> dict[str, Rule]:
    """Return all rules by id, in the order of the list."""
    lines = (TESTS / "requirements.txt").read_text("utf-8").splitlines()
    rows = [Rule(*line.split()) for line in lines if line and not line.startswith("#")]
    return {row.id: row for row in rows}


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test (or a class, or a module) as one that holds these rules."""
    if unknown := [name for name in ids if name not in rules()]:
        raise ValueError(f"no such rule: {', '.join(unknown)}")
    return pytest.mark.requirement(*ids)


def named_in(source: str) -> set[str]:
    """Return the rule ids that the decorators and marks of a test file name."""
    return {
        argument.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _name(node.func) == "requirement"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def named_by(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return for each rule that is named the test files that name it."""
    found: dict[str, list[Path]] = {}
    for file in sorted(files):
        for name in named_in(file.read_text("utf-8")):
            found.setdefault(name, []).append(file)
    return found


def own_test_files() -> list[Path]:
    """Return the project's test files, but the one that tests this."""
    return [
        file
        for file in TESTS.rglob("test_*.py")
        if not {"node_modules", ".venvs"} & set(file.parts) and file.name != "test_requirement.py"
    ]


def report() -> str:
    """Return what `make requirements` prints."""
    named = named_by(own_test_files())
    missing = [rule for rule in rules().values() if rule.id not in named]
    lines = [f"{rule.id:<13} {rule.level:<10} {rule.who}  {rule.versions}" for rule in missing]
    lines.append(f"{len(missing)} of {len(rules())} rules are named by no test.")
    return "\n".join(lines)


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
