"""The manifest of the conformance kit: complete, in our own words, honest about who judges what."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from accord_conformance.judges.observer import observed_rules
from accord_conformance.rules.manifest import areas, requirements

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "conformance.md"
CATALOGUE = HERE.parents[2] / "shared" / "spec.md"
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"}
MOST_PLANNED = 49  # what waits for transports and routers


def test_manifest_has_every_rule_of_the_list() -> None:
    listed = (HERE / "ids.txt").read_text("utf-8").split()
    assert list(requirements()) == listed


def test_list_is_that_of_the_catalogue() -> None:
    if not CATALOGUE.exists():
        pytest.skip("the catalogue is not beside the project")
    found = re.findall(r"^\| (R-\w+-\d+) \| ?(\w?) ?\|", CATALOGUE.read_text("utf-8"), re.MULTILINE)
    live = [name for name, change in found if change != "X"]
    assert sorted(live) == sorted(requirements())


def test_rules_are_one_sentence_each() -> None:
    for rule in requirements().values():
        assert not re.search(r"[.!?]\s+[A-Z]", rule.rule), rule
        assert rule.rule.endswith((".", ").", "`.")), rule
        assert len(rule.rule) <= 250, rule
        assert "§" not in rule.rule, rule


def test_rules_say_all_there_is_to_know() -> None:
    for rule in requirements().values():
        assert rule.level.upper() in LEVELS, rule
        assert rule.area in areas(), rule
        assert rule.id.startswith(f"R-{rule.area}-")
        assert set(rule.versions) <= {1, 2}
        assert rule.versions, rule
        assert rule.source, rule


def test_what_is_untestable_says_why() -> None:
    for rule in requirements().values():
        assert bool(rule.reason) == (rule.how == "untestable"), rule


def test_what_is_observed_is_what_judges_tell_of() -> None:
    marked = {rule.id for rule in requirements().values() if rule.how == "observed"}
    assert marked == observed_rules()


def test_less_and_less_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    count = Counter(rule.how for rule in requirements().values())
    print(dict(count))
    assert count["planned"] <= MOST_PLANNED


def test_most_of_what_must_be_on_stdio_is_judged() -> None:
    asked = [
        rule
        for rule in requirements().values()
        if rule.is_must
        and rule.area not in {"HTTP", "WS", "ROUTE", "REG", "PROXY"}
        and rule.who in {"agent", "client", "both"}
    ]
    judged = sum(rule.how in {"observed", "checked"} for rule in asked)
    share = 100 * judged / len(asked)
    assert share >= 85
    words = " ".join(PAGE.read_text("utf-8").split())
    left_out = sum(rule.is_must for rule in requirements().values()) - len(asked)
    assert f"Of the {len(asked)} rules" in words
    assert f"{judged} ({share:.1f} %) are observed or checked" in words
    assert f"Left out of the count are {left_out}" in words
