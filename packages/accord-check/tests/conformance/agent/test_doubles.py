"""Each scenario finds the violation of its rules, and nothing else."""

from __future__ import annotations

import importlib

import pytest

from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.rules.manifest import requirements
from conformance.agent.filtered_agent import MessageFilter, broken, check
from conformance.agent.session_doubles import DOUBLES

importlib.import_module("conformance.agent.turn_doubles")
importlib.import_module("conformance.agent.nes_doubles")
importlib.import_module("conformance.agent.mcp_doubles")

PAIRS = [(one, version) for one in DOUBLES for version in one.versions]


@pytest.mark.parametrize(
    ("double", "version"), PAIRS, ids=[f"{one.rule}-{one.__name__}-v{v}" for one, v in PAIRS]
)
async def test_double_fails_this_rule_and_no_other(
    double: type[MessageFilter], version: int
) -> None:
    result = await check(double, (version,), double.rule)
    found = broken(result)
    assert set(found) == {double.rule} | double.also, (
        found,
        result.scenario_results,
        result.unsupported,
    )
    reported = [one for report in result.reports for one in report.rules[double.rule].failures]
    assert all(one.by == "agent" and one.expected and one.got and one.frames for one in reported)


def test_every_rule_of_a_scenario_has_a_double_in_each_version() -> None:
    asked = {
        (rule, version)
        for one in agent_scenarios()
        for rule in one.rules
        for version in set(one.versions) & set(requirements()[rule].versions)
    }
    shown = {(one.rule, version) for one, version in PAIRS}
    assert sorted(asked - shown) == []
