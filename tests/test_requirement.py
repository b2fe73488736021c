"""The list of rules and the marks that point into it."""

from __future__ import annotations

import re

import pytest

from requirement import named, named_in, reasons, report, requirement, rules

LEVELS = {"MUST", "MUST-NOT", "SHOULD", "SHOULD-NOT", "MAY", "must", "should", "may"}


def test_every_rule_has_a_level_an_owner_and_a_version() -> None:
    for rule in rules().values():
        assert re.fullmatch(r"R-[A-Z]+-\d\d", rule.id)
        assert rule.level in LEVELS
        assert rule.who in set("ACBPKSHR")
        assert re.fullmatch(r"(1U?)?\+?(2U?)?|opt", rule.versions)


def test_requirement_marks_the_test_with_its_rules() -> None:
    assert requirement("R-GEN-01", "R-GEN-02").args == ("R-GEN-01", "R-GEN-02")


def test_requirement_refuses_an_id_that_is_not_in_the_list() -> None:
    with pytest.raises(ValueError, match="no such rule: R-GEN-99"):
        requirement("R-GEN-01", "R-GEN-99")


def test_ids_are_found_in_decorators_and_in_module_marks() -> None:
    source = """
pytestmark = [requirement("R-GEN-01")]

@requirement("R-GEN-02", "R-GEN-03")
def test_one(): ...

@pytest.mark.requirement("R-GEN-04")
async def test_two(): ...
"""
    assert named_in(source) == {"R-GEN-01", "R-GEN-02", "R-GEN-03", "R-GEN-04"}


def test_every_id_that_a_test_names_is_a_rule() -> None:
    assert set(named()) <= set(rules())


def test_rule_without_a_test_has_a_reason() -> None:
    tested = set(named())
    apart = [name for reason in reasons() for name in reason.ids]
    assert len(apart) == len(set(apart)), "given twice"
    assert set(apart) <= set(rules())
    assert not set(rules()) - tested - set(apart), "name it in a test, or say why not"


def test_report_counts_every_rule() -> None:
    assert f" of {len(rules())} rules" in report()
