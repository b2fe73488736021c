"""The manifest of rules is complete and correct."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from accord_conformance.judges.observer import observed_rules
from accord_conformance.rules.manifest import areas, requirements, rule_files
from project import ROOT

HERE = Path(__file__).parent
PAGE = ROOT / "docs/explanation/conformance.md"
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"}
LEAST_RULES = 700
MAX_PLANNED = 20  # rules about routing, registry files and servers


def test_rules_are_complete_and_in_order() -> None:
    ids = list(requirements())
    assert len(ids) >= LEAST_RULES
    in_files = re.findall(
        r"^\[(R-[A-Z]+-\d{2,})\]$",
        "\n".join(path.read_text("utf-8") for path in rule_files()),
        re.MULTILINE,
    )
    assert sorted(in_files) == sorted(ids)
    for area in areas():
        numbers = [
            int(name.rpartition("-")[2]) for name in ids if requirements()[name].area == area
        ]
        assert numbers == sorted(numbers), area
        assert numbers, area


def test_rules_are_one_sentence_each() -> None:
    for rule in requirements().values():
        assert not re.search(r"[.!?]\s+[A-Z]", rule.rule), rule
        assert rule.rule.endswith((".", ").", "`.")), rule
        assert len(rule.rule) <= 250, rule
        assert "§" not in rule.rule, rule


def test_rules_have_all_fields() -> None:
    for rule in requirements().values():
        assert rule.level.upper() in LEVELS, rule
        assert rule.area in areas(), rule
        assert rule.id.startswith(f"R-{rule.area}-")
        assert set(rule.versions) <= {1, 2}
        assert rule.versions, rule
        assert rule.source, rule


def test_untestable_rules_have_a_reason() -> None:
    for rule in requirements().values():
        assert bool(rule.reason) == (rule.how == "untestable"), rule


def test_observed_rules_are_those_of_the_judges() -> None:
    marked = {rule.id for rule in requirements().values() if rule.how == "observed"}
    assert marked == observed_rules()


def test_number_of_planned_rules_does_not_grow(capsys: pytest.CaptureFixture[str]) -> None:
    count = Counter(rule.how for rule in requirements().values())
    print(dict(count))
    assert count["planned"] <= MAX_PLANNED


def test_most_must_rules_on_stdio_are_judged() -> None:
    asked = [
        rule
        for rule in requirements().values()
        if rule.is_must
        and rule.area not in {"HTTP", "WS", "SEC", "ROUTE", "REG", "PROXY"}
        and rule.who in {"agent", "client", "both"}
    ]
    judged = sum(rule.how in {"observed", "checked"} for rule in asked)
    share = 100 * judged / len(asked)
    assert share >= 85
    words = " ".join(PAGE.read_text("utf-8").split())
    left_out = sum(rule.is_must for rule in requirements().values()) - len(asked)
    assert f"Of the {len(asked)} rules" in words
    assert f"{judged} ({share:.1f} %) are observed or checked" in words
    assert f"{left_out} rules are not counted" in words


def test_rules_of_the_network_are_judged_or_have_a_reason() -> None:
    asked = [rule for rule in requirements().values() if rule.area in {"HTTP", "WS"}]
    judged = sum(rule.how == "checked" for rule in asked)
    assert not any(rule.how == "planned" for rule in asked)
    assert judged >= 57
    words = " ".join(PAGE.read_text("utf-8").split())
    assert f"Of the {len(asked)} rules of HTTP and WebSocket, {judged} are checked" in words
