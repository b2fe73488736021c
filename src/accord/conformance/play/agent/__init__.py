"""The scenarios that are played with agents, one file per area."""

from __future__ import annotations

from accord.conformance.play.agent import sessions
from accord.conformance.play.scenario import Scenario
from accord.conformance.play.stage import Stage

__all__ = ("AGENT_SCENARIOS",)

AGENT_SCENARIOS: tuple[Scenario[Stage], ...] = (*sessions.SCENARIOS,)
