"""Each judge finds what breaks its rule, and nothing else; what keeps all rules is clean."""

from __future__ import annotations

import importlib

import pytest

from accord_conformance.judges.observer import observed_rules
from accord_conformance.rules.manifest import requirements
from conformance.doubles.kept import everything
from conformance.doubles.talking import DOUBLES, Double

for name in ("framing", "handshake", "fields", "sessions", "turns", "work", "families"):
    importlib.import_module(f"conformance.doubles.{name}")


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
def test_double_is_told_of_with_this_rule_and_no_other(double: Double) -> None:
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
def test_what_keeps_all_rules_is_clean(version: int) -> None:
    report = everything(version).report()
    assert [(found.rule, found.expected, found.got) for found in report.failures()] == []
    assert report.version == version


def test_every_judged_rule_has_a_double() -> None:
    assert sorted(observed_rules() - {double.rule for double in DOUBLES}) == []


def test_every_judged_rule_is_told_of_when_it_is_kept() -> None:
    reports = [everything(version).report() for version in (1, 2)]
    reports += [double.report() for double in DOUBLES]
    kept = {rule for report in reports for rule, found in report.rules.items() if found.passed}
    missing = sorted(observed_rules() - kept - NEVER_KEPT)
    assert missing == [], missing


# What is forbidden in one version as a whole: that it was not sent says nothing.
NEVER_KEPT = {"R-FS-08", "R-TERM-13"}
