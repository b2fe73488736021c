"""Each scenario for servers finds the violation of its rules, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from accord.transports.registry import RemoteOptions
from accord_conformance.agent.context import RemoteAgent
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios, remote_scenarios
from accord_conformance.agent.settings import Settings
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import requirements
from conformance.agent.filtered_agent import PROMPTS, broken
from conformance.network.server_doubles import CONFORMING, DOUBLES, TOKEN, Double
from remote.quirk_server import QuirkServer, ServerQuirks

GENERAL = {one.name for one in agent_scenarios()}
SCENARIOS = {
    medium: [one for one in remote_scenarios(medium) if one.name not in GENERAL]
    for medium in ("http", "websocket")
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the long waits of the kit short, and the large messages small."""
    scenarios = "accord_conformance.agent.scenarios"
    monkeypatch.setattr(f"{scenarios}.network.KEEPALIVE_S", 1.0)
    monkeypatch.setattr(f"{scenarios}.network.PING_S", 1.0)
    monkeypatch.setattr(f"{scenarios}.network.FIRST_MESSAGE_S", 1.5)
    monkeypatch.setattr(f"{scenarios}.network.ACCEPTED_BYTES", 31 * 1024)
    monkeypatch.setattr(f"{scenarios}.network.REFUSED_BYTES", 33 * 1024)
    monkeypatch.setattr(f"{scenarios}.network.LARGE_S", 1.0)


async def check(
    quirks: ServerQuirks,
    medium: Literal["http", "websocket"],
    rule: str | None = None,
    versions: Sequence[int] = (1,),
) -> RunResult:
    """Run all scenarios of a medium, or those for a rule, against a server."""
    async with QuirkServer(quirks, token=TOKEN) as server:
        url = server.http_url if medium == "http" else server.ws_url
        remote = RemoteAgent(url, RemoteOptions(token=TOKEN))
        chosen = [one for one in SCENARIOS[medium] if rule is None or rule in one.rules]
        settings = Settings(timeout=5, answer=2, login="script", prompts=dict(PROMPTS))
        run = AgentRun(lambda _: remote.connect(), chosen, settings, subject="bent", remote=remote)
        result = await run.run(versions)
    assert result.kit_errors == []
    return result


def medium_of(rule: str) -> Literal["http", "websocket"]:
    return "websocket" if rule.startswith("R-WS-") else "http"


@pytest.mark.parametrize("medium", ["http", "websocket"])
@pytest.mark.parametrize("version", [1, 2])
async def test_server_that_follows_the_rules_has_no_findings(
    version: int, medium: Literal["http", "websocket"]
) -> None:
    quirks = replace(CONFORMING, event_ids=True)
    result = await check(quirks, medium, versions=(version,))
    assert broken(result) == {}
    odd = [
        (one.scenario, one.outcome, one.reason)
        for one in result.scenario_results
        if one.outcome != "finished"
    ]
    assert odd == []
    named = {rule for one in SCENARIOS[medium] for rule in one.rules}
    for report in result.reports:
        assert sorted(named - {rule for rule, found in report.rules.items() if found.passed}) == []


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
async def test_double_fails_this_rule_and_no_other(double: Double) -> None:
    result = await check(double.quirks, medium_of(double.rule), double.rule)
    found = broken(result)
    assert set(found) == {double.rule} | double.also, (found, result.scenario_results)
    (report,) = result.reports
    for finding in report.rules[double.rule].failures:
        assert finding.by == "agent"
        assert finding.expected
        assert finding.got
        assert finding.frames
        assert not any(TOKEN.encode() in frame.text for frame in finding.frames)


def test_every_rule_of_a_scenario_has_a_double_and_is_marked() -> None:
    asked = {rule for own in SCENARIOS.values() for one in own for rule in one.rules}
    assert sorted(asked - {double.rule for double in DOUBLES}) == []
    assert sorted(rule for rule in asked if requirements()[rule].how != "checked") == []
