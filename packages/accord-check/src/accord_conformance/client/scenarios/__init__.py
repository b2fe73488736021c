"""The scenarios for clients, in the order of `check: all`."""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.client.context import ClientContext
from accord_conformance.client.scenarios import messages, services, state_session, state_tools
from accord_conformance.harness import Scenario
from accord_conformance.rules.manifest import load_extensions

__all__ = ("add_client_scenarios", "client_scenarios", "remote_client_scenarios")

_scenarios: list[Scenario[ClientContext]] = [
    *messages.MALFORMED,
    *messages.UPDATES,
    *state_session.STATE_MESSAGES,
    *state_tools.STATE_TOOL_CALLS,
    *state_tools.STATE_TERMINALS,
    *state_session.STATE_SESSION,
    *state_session.STATE_ACTIVITY,
    *state_tools.STATE_SUBAGENTS,
    *state_session.STATE_META,
    *services.PERMISSIONS,
    *services.FILES,
    *services.TERMINALS,
    *services.ELICITATION,
    *services.MCP_OVER_ACP,
    *messages.USER_CANCEL,
]


def client_scenarios() -> tuple[Scenario[ClientContext], ...]:
    """Return the scenarios for clients, those of extensions last."""
    load_extensions()
    return tuple(_scenarios)


def remote_client_scenarios() -> tuple[Scenario[ClientContext], ...]:
    """Return the scenarios for clients that connect by HTTP or WebSocket."""
    from accord_conformance.client.scenarios import network  # needs the extra `remote`

    return (*network.NETWORK, *client_scenarios(), *network.LAST_SCENARIOS)


def add_client_scenarios(scenarios: Iterable[Scenario[ClientContext]]) -> None:
    """Add the scenarios of an extension."""
    _scenarios.extend(scenarios)
