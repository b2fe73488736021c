"""The scenarios for proxies, one file per area."""

from __future__ import annotations

from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.chain.proxy_scenarios import (
    cancellation,
    forwarding,
    handshake,
    mcp,
    order,
)
from accord_conformance.harness.scenario import Scenario

__all__ = ("proxy_scenarios",)

_SCENARIOS: tuple[Scenario[ProxyContext], ...] = (
    *handshake.SCENARIOS,
    *forwarding.SCENARIOS,
    *cancellation.SCENARIOS,
    *order.SCENARIOS,
    *mcp.SCENARIOS,
)


def proxy_scenarios() -> tuple[Scenario[ProxyContext], ...]:
    """Return the scenarios for proxies."""
    return _SCENARIOS
