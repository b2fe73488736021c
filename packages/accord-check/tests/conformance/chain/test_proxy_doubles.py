"""Each scenario for proxies finds the violation of its rules, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from accord_conformance.chain.line import DIALECTS
from accord_conformance.chain.proxy_context import LINE_RULES, ProxyProbe, ProxySettings
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.chain.run import ChainRun
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import requirements
from conformance.chain.base_proxy import AddingProxy, BaseProxy
from conformance.chain.proxy_doubles import DOUBLES, ConnectTo, Double, Write

SCENARIOS = proxy_scenarios()


async def check(
    make: type[BaseProxy],
    *,
    dialect: str = "acp",
    versions: Sequence[int] = (1, 2),
    answer_s: float = 2.0,
    changes: frozenset[str] = frozenset(),
    rule: str | None = None,
) -> RunResult:
    """Run the scenarios, or those for a rule, against a proxy in this process."""

    def proxy(write: Write) -> BaseProxy:
        return make(write, dialect)

    connect = ConnectTo(proxy)
    settings = ProxySettings(answer_s=answer_s, changes=changes)
    probe = ProxyProbe(connect, settings, None, lambda *_: None)
    chosen = [one for one in SCENARIOS if rule is None or rule in one.rules or rule in LINE_RULES]
    result = await ChainRun("proxy", chosen, probe.make_context, probe).run(versions)
    for transport in connect.opened:
        await transport.aclose()
    assert result.kit_errors == []
    return result


def broken(result: RunResult) -> dict[str, list[str]]:
    return {
        finding.rule: [f"expected {finding.expected}; got {finding.got}"]
        for report in result.reports
        for finding in report.failures()
    }


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.requirement("R-PROXY-25")
async def test_base_proxy_of_each_dialect_is_recognized_and_has_no_findings(dialect: str) -> None:
    result = await check(AddingProxy, dialect=dialect)
    assert broken(result) == {}
    assert result.unsupported == {}
    odd = [
        (one.scenario, one.outcome, one.reason)
        for one in result.scenario_results
        if one.outcome != "finished"
    ]
    assert odd == []
    for report in result.reports:
        named = {rule for one in SCENARIOS for rule in one.rules} | set(LINE_RULES)
        kept = {rule for rule, found in report.rules.items() if found.passed}
        assert sorted(named - kept) == []


async def test_proxy_that_adds_no_servers_is_not_judged_by_them() -> None:
    result = await check(BaseProxy, rule="R-MOA-08")
    assert broken(result) == {}
    assert {one.outcome for one in result.scenario_results} == {"not exercised"}


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
async def test_double_fails_this_rule_and_no_other(double: Double) -> None:
    result = await check(double.make, versions=double.versions[:1], answer_s=0.5, rule=double.rule)
    found = broken(result)
    assert set(found) == {double.rule} | double.also, (found, result.scenario_results)
    (report,) = result.reports
    for finding in report.rules[double.rule].failures:
        assert finding.by == "proxy"
        assert finding.frames
        assert finding.expected
        assert finding.got


def test_every_rule_of_a_scenario_has_a_double_and_is_judged() -> None:
    asked = {rule for one in SCENARIOS for rule in one.rules} | set(LINE_RULES)
    assert sorted(asked - {double.rule for double in DOUBLES}) == []
    assert not [rule for rule in asked if requirements()[rule].how not in ("checked", "observed")]
