"""The table of threats in the docs names tests that exist."""

from __future__ import annotations

import re

from project import ROOT, TESTS

PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_each_threat_is_attacked_by_a_test_that_exists() -> None:
    known = {
        name
        for tests in TESTS
        for folder in ("inspector", "registry", "remote", "text", "trace", "transports")
        for file in (tests / folder).glob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", file.read_text("utf-8"), re.M)
    }
    rows = re.findall(r"^\| (T\d+) \|.*\|([^|]*)\|$", PAGE.read_text("utf-8"), re.M)
    assert [threat for threat, _ in rows] == [f"T{number}" for number in range(1, 29)]
    for threat, names in rows:
        found = re.findall(r"`(\w+)`", names)
        assert set(found) <= known, threat
        assert found, threat
