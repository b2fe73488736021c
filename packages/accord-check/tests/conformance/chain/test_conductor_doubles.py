"""Each scenario for conductors finds the violation of its rules, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from accord_conformance.chain import conductor_scenarios as module
from accord_conformance.chain.conductor_context import CONDUCTOR_LINE_RULES, ConductorProbe
from accord_conformance.chain.conductor_scenarios import conductor_scenarios
from accord_conformance.chain.line import DIALECTS
from accord_conformance.chain.run import ChainRun
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import requirements
from conformance.chain.base_conductor import BaseConductor
from conformance.chain.conductor_doubles import DOUBLES, NAMES, ConductorDouble, DoubleLaunch

SCENARIOS = conductor_scenarios()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the waits of the kit short, and the queues small."""
    monkeypatch.setattr(module, "_LAZY_S", 0.05)
    monkeypatch.setattr(module, "_STALLED_S", 0.1)
    monkeypatch.setattr(module, "_LIMIT_BYTES", 4 * 1024 * 1024)


async def check(
    make: type[BaseConductor],
    *,
    dialect: str = "acp",
    versions: Sequence[int] = (1, 2),
    answer_s: float = 2.0,
    rule: str | None = None,
) -> RunResult:
    """Run the scenarios, or those for a rule, against a conductor in this process."""
    probe = ConductorProbe(
        lambda: DoubleLaunch(make, dialect), NAMES, DIALECTS[dialect], answer_s=answer_s
    )
    everywhere = rule in CONDUCTOR_LINE_RULES
    chosen = [one for one in SCENARIOS if rule is None or everywhere or rule in one.rules]
    result = await ChainRun("conductor", chosen, probe.make_context, probe).run(versions)
    assert result.kit_errors == []
    return result


def broken(result: RunResult) -> dict[str, list[str]]:
    return {
        finding.rule: [f"expected {finding.expected}; got {finding.got}"]
        for report in result.reports
        for finding in report.failures()
    }


@pytest.mark.parametrize("dialect", list(DIALECTS))
async def test_base_conductor_of_each_dialect_has_no_findings(dialect: str) -> None:
    result = await check(BaseConductor, dialect=dialect)
    assert broken(result) == {}
    assert result.unsupported == {}
    odd = [
        (one.scenario, one.outcome, one.reason)
        for one in result.scenario_results
        if one.outcome != "finished"
    ]
    assert odd == []
    for report in result.reports:
        named = {rule for one in SCENARIOS for rule in one.rules} | set(CONDUCTOR_LINE_RULES)
        kept = {rule for rule, found in report.rules.items() if found.passed}
        assert sorted(named - kept) == []


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
async def test_double_fails_this_rule_and_no_other(double: ConductorDouble) -> None:
    result = await check(double.make, versions=(1,), answer_s=0.5, rule=double.rule)
    found = broken(result)
    assert set(found) == {double.rule} | double.also, (found, result.scenario_results)
    (report,) = result.reports
    for finding in report.rules[double.rule].failures:
        assert finding.by == "conductor"
        assert finding.frames
        assert finding.expected
        assert finding.got


def test_every_rule_of_a_scenario_has_a_double_and_is_judged() -> None:
    asked = {rule for one in SCENARIOS for rule in one.rules} | set(CONDUCTOR_LINE_RULES)
    assert sorted(asked - {double.rule for double in DOUBLES}) == []
    assert not [rule for rule in asked if requirements()[rule].how not in ("checked", "observed")]
