"""Ties tests to the rules of the protocol, and lists the rules that no test names.

The rules are those of the manifest of accord_conformance; `untested.txt` has the reasons for rules
without a test.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from project import TESTS

if TYPE_CHECKING:
    from accord_conformance.rules.manifest import Requirement

HERE = Path(__file__).parent
NOT_OURS = {".venvs", "node_modules"}


def rules() -> dict[str, Requirement]:
    """Return all rules by id, in the order of the manifest."""
    from accord_conformance.rules.manifest import requirements

    return requirements()


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test, a class or a module as a proof of these rules."""
    # Without the kit (`make alone`), nothing tells which rules there are.
    known = rules() if find_spec("accord_conformance") else ids
    if unknown := [name for name in ids if name not in known]:
        raise ValueError(f"unknown rules: {', '.join(unknown)}")
    return pytest.mark.requirement(*ids)


@cache
def marks_in(source: str) -> list[list[str]]:
    """Return the rule ids of each decorator and mark of a test file."""
    if "requirement" not in source:
        return []
    return [
        [
            argument.value
            for argument in node.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _name(node.func) == "requirement"
    ]


def named_in(source: str) -> set[str]:
    """Return the rule ids that the marks of a test file name."""
    return {name for marked in marks_in(source) for name in marked}


def named_by(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the test files that name each rule."""
    found: dict[str, list[Path]] = {}
    for file in sorted(files):
        for name in named_in(file.read_text("utf-8")):
            found.setdefault(name, []).append(file)
    return found


def own_test_files() -> list[Path]:
    """Return the test files of the project, except the test of this module."""
    files = [*HERE.glob("test_*.py"), *(HERE / "interop").glob("test_*.py")]
    for folder in (folder for tests in TESTS for folder in tests.iterdir() if folder.is_dir()):
        if folder.name != "interop":  # it contains programs of other projects
            files += folder.rglob("test_*.py")
    return [
        file
        for file in files
        if not NOT_OURS & set(file.parts) and file.name != "test_requirement.py"
    ]


@cache
def named() -> dict[str, list[Path]]:
    """Return the test files that name each rule, for all tests of the project."""
    return named_by(own_test_files())


class Reason(NamedTuple):
    """The reason why no test names some rules; `kind` groups reasons."""

    kind: str
    why: str
    ids: frozenset[str]


def reasons() -> list[Reason]:
    """Return the reasons for rules without a test: from the manifest, then from `untested.txt`."""
    found = [
        Reason("manifest", "planned", _untested(lambda rule: rule.how == "planned")),
        Reason("manifest", "a permission, which nothing can break", _untested(_only_permits)),
    ]
    kind = ""
    for line in (HERE / "untested.txt").read_text("utf-8").splitlines():
        if line.startswith("== "):
            kind = line.removeprefix("== ")
        elif line and not line.startswith("#"):
            why, _, names = line.partition(": ")
            ids = frozenset(name for word in names.split() for name in _ids(word))
            found.append(Reason(kind, why, ids))
    return found


def _untested(condition: Callable[[Requirement], bool]) -> frozenset[str]:
    """Return the rules that meet a condition and that no test names."""
    return frozenset(
        name for name, rule in rules().items() if condition(rule) and name not in named()
    )


def _only_permits(rule: Requirement) -> bool:
    return rule.level.upper() == "MAY" and rule.how == "untestable"


def _ids(word: str) -> Iterable[str]:
    """Return the rules of an entry of `untested.txt`: `AREA-NN`, or `AREA-*` for the others."""
    area, _, number = f"R-{word}".rpartition("-")
    if number != "*":
        return [f"{area}-{number}"]
    return [name for name in rules() if name.startswith(f"{area}-") and name not in named()]


def report() -> str:
    """Return what `make requirements` prints."""
    tested = named().keys() & rules().keys()
    given = {name for reason in reasons() for name in reason.ids}
    apart = given - tested
    lines: list[str] = []
    for kind, group in groupby(reasons(), lambda reason: reason.kind):
        lines.append(kind)
        for reason in group:
            areas = Counter(name.split("-")[1] for name in sorted(reason.ids))
            counted = ", ".join(f"{area} {count}" for area, count in areas.items())
            lines.append(f"  {len(reason.ids):>3} {reason.why} ({counted})")
    missing = [rule for rule in rules().values() if rule.id not in tested | apart]
    if given & tested:
        lines.append(f"no reason needed any more: {', '.join(sorted(given & tested))}")
    for rule in missing:
        versions = "+".join(f"v{number}" for number in rule.versions)
        lines.append(f"{rule.id:<13} {rule.level:<10} {rule.who:<11} {versions} {rule.stability}")
    lines.append(
        f"{len(tested)} of {len(rules())} rules are named by tests, "
        f"{len(apart)} have a reason why not, {len(missing)} have none."
    )
    return "\n".join(lines)


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
