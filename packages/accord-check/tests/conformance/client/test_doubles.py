"""Each client that violates a rule fails this rule and no other."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from accord_conformance.client.scenario_agent import CLIENT_RULES
from accord_conformance.client.scenarios import client_scenarios
from accord_conformance.rules.manifest import requirements
from conformance.client.double_factories import DOUBLES, Double
from conformance.client.driven_client import Between, check

for name in ("wire", "service", "behaviour", "state"):
    importlib.import_module(f"conformance.client.{name}_doubles")

RULES = {*CLIENT_RULES, *(rule for one in client_scenarios() for rule in one.rules)}
IN_A_PROCESS = {"R-STDIO-07"}  # see test_check_client


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
async def test_double_fails_this_rule_and_no_other(double: Double, tmp_path: Path) -> None:
    between = Between()
    double.spoil(between)
    result = await check(tmp_path, double.version, *double.plays, between=between, **double.more)
    (report,) = result.reports
    broken = {finding.rule: finding for finding in report.failures()}
    assert set(broken) == {double.rule} | double.also, [
        (finding.rule, finding.expected, finding.got) for finding in broken.values()
    ]
    finding = broken[double.rule]
    assert finding.by == "client"
    assert finding.frames
    assert finding.expected
    assert finding.got
    rule = requirements()[double.rule]
    if rule.decides(double.version):
        assert report.outcome(rule) == ("advised" if double.advised else "failed")


def test_every_checked_rule_has_a_double() -> None:
    assert sorted(RULES - {double.rule for double in DOUBLES} - IN_A_PROCESS) == []


def test_checked_rules_are_marked() -> None:
    unmarked = [rule for rule in RULES if requirements()[rule].how not in ("checked", "observed")]
    assert sorted(unmarked) == []
