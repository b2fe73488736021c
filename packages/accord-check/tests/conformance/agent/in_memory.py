"""Runs of the kit with agents in this process: no program is started for each scenario."""

from __future__ import annotations

from collections.abc import Callable

from accord.agent.agent import Agent, serve
from accord.transports.base import Transport
from accord.transports.memory import ServedTransport
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import read_settings
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import select_scenarios
from project import ROOT

__all__ = ("SETTINGS", "check_in_memory", "odd_outcomes", "serving")

SETTINGS = ROOT / "examples/check"


def serving(make: Callable[[], Agent]) -> Callable[[], Transport]:
    """Return what connects to a new agent of this process."""
    return lambda: ServedTransport(lambda transport: serve(make(), transport))


async def check_in_memory(
    connect: Callable[[], Transport], settings: str, *only: str, versions: tuple[int, ...] = (1, 2)
) -> RunResult:
    """Run all scenarios, or those that `only` names, with a file of settings for real programs."""
    chosen = select_scenarios(only, agent_scenarios())
    run = AgentRun(lambda _: connect(), chosen, read_settings(SETTINGS / settings))
    return await run.run(versions)


def odd_outcomes(result: RunResult) -> list[tuple[str, str, str]]:
    """Return the scenarios with an end that `accord check agent --strict` does not accept."""
    return [
        (one.scenario, one.outcome, one.reason)
        for one in result.scenario_results
        if one.outcome not in ("finished", "not exercised")
    ]
