"""An agent that keeps all rules gets a clean report."""

from __future__ import annotations

from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.rules.manifest import requirements
from conformance.agent.bent import Bend, broken, check


class OnlyVersion1(Bend):
    """An agent that has no version 2."""

    only_version_1 = True


async def test_script_agent_in_memory_breaks_nothing() -> None:
    result = await check()
    assert broken(result) == {}
    odd = [
        one for one in result.scenario_results if one.outcome in ("unfinished", "wrong", "advised")
    ]
    assert odd == []
    assert result.login_problems == []


async def test_agent_of_version_1_alone_breaks_nothing() -> None:
    result = await check(OnlyVersion1)
    assert broken(result) == {}
    assert [report.version for report in result.reports] == [1]
    assert list(result.unsupported) == [2]


def test_scenarios_have_names_of_their_own_and_say_what_they_are_about() -> None:
    names = [one.name for one in agent_scenarios()]
    assert len(names) == len(set(names))
    assert all(one.about.endswith(".") for one in agent_scenarios())
    assert all("/" in name for name in names)


def test_scenarios_name_rules_of_agents_that_are_judged() -> None:
    for one in agent_scenarios():
        for rule in one.rules:
            assert requirements()[rule].how in ("checked", "observed"), (one.name, rule)
            assert requirements()[rule].who in ("agent", "both"), (one.name, rule)
            assert set(requirements()[rule].versions) & set(one.versions), (one.name, rule)
