"""The scenarios for agents, one file per area.

A scenario is a coroutine function with the decorator `scenario`, in `SCENARIOS` of the file of its
area. It names its rules, and judges only what was exercised and what does not depend on the model
or on timing.
"""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenarios import (
    background,
    cancellation,
    elicitation,
    extensions,
    files_and_terminals,
    handshake,
    login,
    malformed,
    mcp,
    options,
    permissions,
    prompts,
    providers,
    reopening,
    session_list,
    sessions,
    shutdown,
)
from accord_conformance.harness.scenario import Scenario
from accord_conformance.rules.extensions import load_extensions
from accord_conformance.traffic.frame import Medium

__all__ = ("add_agent_scenarios", "agent_scenarios", "remote_scenarios")

_scenarios: list[Scenario[AgentContext]] = [
    *handshake.SCENARIOS,
    *login.SCENARIOS,
    *sessions.SCENARIOS,
    *mcp.SCENARIOS,
    *prompts.SCENARIOS,
    *permissions.SCENARIOS,
    *files_and_terminals.SCENARIOS,
    *elicitation.SCENARIOS,
    *cancellation.SCENARIOS,
    *reopening.SCENARIOS,
    *session_list.SCENARIOS,
    *options.SCENARIOS,
    *extensions.SCENARIOS,
    *background.SCENARIOS,
    *providers.SCENARIOS,
    *malformed.SCENARIOS,
    *shutdown.SCENARIOS,
]


def agent_scenarios() -> tuple[Scenario[AgentContext], ...]:
    """Return the scenarios for agents, those of extensions last."""
    load_extensions()
    return tuple(_scenarios)


def remote_scenarios(medium: Medium) -> tuple[Scenario[AgentContext], ...]:
    """Return the scenarios for agents at a URL: those for all agents, and those of its medium."""
    # They need the extra `remote`.
    match medium:
        case "websocket":
            from accord_conformance.agent.scenarios import websocket

            return (*websocket.SCENARIOS, *agent_scenarios())
        case "http":
            from accord_conformance.agent.scenarios import http_requests, http_streams

            own = (*http_streams.SCENARIOS, *http_requests.SCENARIOS)
            return (*own, *agent_scenarios())
        case "stdio":
            return agent_scenarios()


def add_agent_scenarios(scenarios: Iterable[Scenario[AgentContext]]) -> None:
    """Add the scenarios of an extension."""
    _scenarios.extend(scenarios)
