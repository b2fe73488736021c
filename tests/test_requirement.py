"""The marks that name the rules of the manifest, and the report about rules without a test."""

from __future__ import annotations

import pytest

from requirement import (
    marks_in,
    named,
    named_in,
    own_test_files,
    reasons,
    report,
    requirement,
    rules,
)

MAX_IDS = 4  # in marks that name a rule


def test_requirement_marks_the_test_with_its_rules() -> None:
    assert requirement("R-GEN-01", "R-GEN-02").args == ("R-GEN-01", "R-GEN-02")


def test_requirement_rejects_an_id_that_is_not_in_the_manifest() -> None:
    with pytest.raises(ValueError, match="unknown rules: R-GEN-99"):
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


def test_every_rule_is_named_by_a_mark_with_few_others() -> None:
    # A test that proves many rules does not show which of them is violated.
    fewest: dict[str, int] = {}
    for file in own_test_files():
        for marked in marks_in(file.read_text("utf-8")):
            for name in marked:
                fewest[name] = min(len(marked), fewest.get(name, len(marked)))
    assert sorted(name for name, others in fewest.items() if others > MAX_IDS) == []
