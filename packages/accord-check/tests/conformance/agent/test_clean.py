"""A conforming agent has a report without findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.rules.manifest import requirements
from conformance.agent.filtered_agent import MessageFilter, broken, check
from conformance.agent.in_memory import check_in_memory, odd_outcomes, serving
from conformance.agent.mcp_doubles import McpConsumer


class OnlyVersion1(MessageFilter):
    """An agent without version 2."""

    only_version_1 = True


async def test_script_agent_in_memory_conforms() -> None:
    result = await check()
    assert broken(result) == {}
    odd = [
        one for one in result.scenario_results if one.outcome in ("unfinished", "wrong", "advised")
    ]
    assert odd == []
    assert result.login_problems == []


@pytest.mark.slow
async def test_coding_agent_in_memory_conforms(tmp_path: Path) -> None:
    coder = pytest.importorskip("accord_coder.agent", reason="needs accord_coder")
    Settings = pytest.importorskip("accord_coder.settings").Settings  # noqa: N806  # a class
    settings = Settings(model="demo", data=tmp_path, config=tmp_path)
    result = await check_in_memory(serving(lambda: coder.Coder(settings)), "coder.toml")
    assert broken(result) == {}
    assert odd_outcomes(result) == []
    assert result.unsupported == {}
    assert result.login_problems == []


async def test_agent_with_only_version_1_conforms() -> None:
    result = await check(OnlyVersion1, rule="R-INIT-06")
    assert broken(result) == {}
    assert [report.version for report in result.reports] == [1]
    assert list(result.unsupported) == [2]


def test_scenarios_have_unique_names_and_descriptions() -> None:
    names = [one.name for one in agent_scenarios()]
    assert len(names) == len(set(names))
    assert all(one.about.endswith(".") for one in agent_scenarios())
    assert all("/" in name for name in names)


def test_scenarios_name_rules_for_agents_that_are_judged() -> None:
    for one in agent_scenarios():
        for rule in one.rules:
            assert requirements()[rule].how in ("checked", "observed"), (one.name, rule)
            assert requirements()[rule].who in ("agent", "both"), (one.name, rule)
            assert set(requirements()[rule].versions) & set(one.versions), (one.name, rule)


async def test_agent_that_uses_a_server_of_the_client_conforms() -> None:
    result = await check(McpConsumer, rule="R-MOA-15")
    assert broken(result) == {}
    assert {one.outcome for one in result.scenario_results} == {"finished"}
    for report in result.reports:
        assert {"R-MOA-07", "R-MOA-10", "R-MOA-13", "R-MOA-15"} <= {
            rule for rule, found in report.rules.items() if found.passed
        }
