"""The table of quirks: each row is used by code, shown by a test, and has evidence."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from accord.rules import quirks
from accord.rules.quirks import QUIRKS, has_quirk, tolerates
from needs import needs
from project import ROOT, SOURCES
from requirement import own_test_files, rules

DOCS = ROOT / "docs"
HEADINGS = DOCS / "explanation" / "conformance-findings.md"


@cache
def named_in(path: Path) -> set[str]:
    """Return the rows that a file names in `tolerates` and `quirk`, or by key."""
    found: set[str] = set()
    text = path.read_text("utf-8")
    if not any(name in text for name in ("tolerates", "quirk", "QUIRKS")):
        return found
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="tolerates" | "quirk"), args=arguments):
                keys = arguments
            case ast.Subscript(value=ast.Name(id="QUIRKS"), slice=key):
                keys = [key]
            case _:
                continue
        found |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return found


def in_code() -> dict[Path, set[str]]:
    return {
        path: named_in(path)
        for folder in SOURCES.values()
        for path in folder.rglob("*.py")
        if path.name != "quirks.py"
    }


def test_rows_are_used_by_code_and_shown_by_a_test() -> None:
    used = set().union(*in_code().values())
    shown = set().union(*map(named_in, own_test_files()))
    assert QUIRKS.keys() - used == set(), "no code tolerates these"
    assert QUIRKS.keys() - shown == set(), "no test shows these"


@needs("accord_conformance")
def test_rows_have_their_program_behaviour_and_evidence() -> None:
    headings = HEADINGS.read_text("utf-8")
    for row in QUIRKS.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)
        for text in (row.does, row.response, row.evidence, *row.programs, *row.concerns):
            assert text == text.strip(), row.id
            assert text, row.id
            assert not text.endswith("."), row.id
        assert row.programs, row.id
        assert row.concerns, row.id
        assert set(row.versions) <= {1, 2}, row.id
        assert {name for name in row.concerns if name.startswith("R-")} <= rules().keys(), row.id
        where, found, heading = row.evidence.partition("conformance findings: ")
        if found and not where:
            assert re.search(rf"^##+ {re.escape(heading)}$", headings, re.MULTILINE), row.id


def test_code_names_existing_rows() -> None:
    assert not set().union(*in_code().values()) - QUIRKS.keys()
    with pytest.raises(KeyError):
        tolerates("no such row")


@pytest.mark.parametrize(
    ("repaired", "version", "expected"),
    [
        (None, "0.1.0", True),
        (None, "99.0.0", True),
        (None, "", True),
        ("0.62.0", "0.9.9", True),
        ("0.62.0", "0.61.9-nightly.20260909", True),
        ("0.62.0", "v0.62.0", False),
        ("0.62.0", "1.0", False),
        ("0.62.0", "built by hand", True),
    ],
)
def test_quirk_of_an_agent_ends_with_the_version_that_is_repaired(
    monkeypatch: pytest.MonkeyPatch, repaired: str | None, version: str, expected: bool
) -> None:
    row = msgspec.structs.replace(QUIRKS["missing-file-fatal"], agents={"an agent": repaired})
    monkeypatch.setattr(quirks, "QUIRKS", {row.id: row})
    assert has_quirk(row.id, "an agent", version) is expected
    assert not has_quirk(row.id, "another agent", version)
