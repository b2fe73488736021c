"""Each judge finds the violation of its rule, and nothing else, and accepts conforming messages."""

from __future__ import annotations

import importlib

import pytest

from accord_conformance.judges.observer import observed_rules
from accord_conformance.rules.manifest import requirements
from conformance.doubles.conforming import everything
from conformance.doubles.conversation import DOUBLES, Double

for name in ("framing", "handshake", "fields", "sessions", "turns", "work", "nes_and_mcp"):
    importlib.import_module(f"conformance.doubles.{name}")


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
def test_double_fails_this_rule_and_no_other(double: Double) -> None:
    report = double.report()
    broken = {finding.rule: finding for finding in report.failures()}
    assert set(broken) == {double.rule} | double.also, [
        (finding.rule, finding.expected, finding.got) for finding in broken.values()
    ]
    finding = broken[double.rule]
    who = requirements()[double.rule].who
    assert finding.by == (double.by or who)
    assert finding.frames
    assert finding.expected
    assert finding.got


@pytest.mark.parametrize("version", [1, 2])
def test_conforming_conversation_has_no_findings(version: int) -> None:
    report = everything(version).report()
    assert [(found.rule, found.expected, found.got) for found in report.failures()] == []
    assert report.version == version


def test_every_judged_rule_has_a_double() -> None:
    assert sorted(observed_rules() - {double.rule for double in DOUBLES}) == []


def test_every_judged_rule_is_exercised_by_a_conforming_conversation() -> None:
    missing = set(observed_rules() - NEVER_KEPT)
    for talk in (everything(1), everything(2), *DOUBLES):
        missing -= {rule for rule, found in talk.report().rules.items() if found.passed}
        if not missing:
            return
    assert sorted(missing) == []


# A rule that forbids something in a whole version is not exercised by its absence.
NEVER_KEPT = {"R-FS-08", "R-TERM-13"}
