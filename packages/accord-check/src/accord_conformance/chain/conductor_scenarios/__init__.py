"""The scenarios for conductors, one file per area."""

from __future__ import annotations

from accord_conformance.chain.conductor_context import ConductorContext
from accord_conformance.chain.conductor_scenarios import (
    cancellation,
    forwarding,
    handshake,
    life,
    order,
)
from accord_conformance.harness.scenario import Scenario

__all__ = ("conductor_scenarios",)

_SCENARIOS: tuple[Scenario[ConductorContext], ...] = (
    *handshake.SCENARIOS,
    *forwarding.SCENARIOS,
    *cancellation.SCENARIOS,
    *order.SCENARIOS,
    *life.SCENARIOS,
)


def conductor_scenarios() -> tuple[Scenario[ConductorContext], ...]:
    """Return the scenarios for conductors."""
    return _SCENARIOS
