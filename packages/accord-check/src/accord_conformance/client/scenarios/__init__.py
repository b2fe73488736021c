"""The scenarios for clients, in the order of `check: all`."""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.client.context import ClientContext
from accord_conformance.client.scenarios import (
    elicitation,
    files,
    malformed,
    mcp_over_acp,
    permissions,
    state_activity,
    state_messages,
    state_meta,
    state_session,
    state_subagents,
    state_terminals,
    state_tool_calls,
    terminals,
    updates,
    user_cancel,
)
from accord_conformance.harness.scenario import Scenario
from accord_conformance.rules.extensions import load_extensions

__all__ = ("add_client_scenarios", "client_scenarios", "remote_client_scenarios")

_scenarios: list[Scenario[ClientContext]] = [
    *malformed.SCENARIOS,
    *updates.SCENARIOS,
    *state_messages.SCENARIOS,
    *state_tool_calls.SCENARIOS,
    *state_terminals.SCENARIOS,
    *state_session.SCENARIOS,
    *state_activity.SCENARIOS,
    *state_subagents.SCENARIOS,
    *state_meta.SCENARIOS,
    *permissions.SCENARIOS,
    *files.SCENARIOS,
    *terminals.SCENARIOS,
    *elicitation.SCENARIOS,
    *mcp_over_acp.SCENARIOS,
    *user_cancel.SCENARIOS,
]


def client_scenarios() -> tuple[Scenario[ClientContext], ...]:
    """Return the scenarios for clients, those of extensions last."""
    load_extensions()
    return tuple(_scenarios)


def remote_client_scenarios() -> tuple[Scenario[ClientContext], ...]:
    """Return the scenarios for clients that connect by HTTP or WebSocket."""
    from accord_conformance.client.scenarios import network  # needs the extra `remote`

    return (*network.SCENARIOS, *client_scenarios(), *network.LAST_SCENARIOS)


def add_client_scenarios(scenarios: Iterable[Scenario[ClientContext]]) -> None:
    """Add the scenarios of an extension."""
    _scenarios.extend(scenarios)
