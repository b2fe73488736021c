"""The scenarios for agents, in the order of a run.

A scenario is a coroutine function with the decorator `scenario`, in the tuple of its area. It names
its rules, and judges only what was exercised and what does not depend on the model or on timing.
"""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenarios import connection, prompts, services, sessions, steering
from accord_conformance.harness import Scenario
from accord_conformance.rules.manifest import load_extensions
from accord_conformance.traffic.message import Medium

__all__ = ("add_agent_scenarios", "agent_scenarios", "remote_scenarios")

_scenarios: list[Scenario[AgentContext]] = [
    *connection.HANDSHAKE,
    *connection.LOGIN,
    *sessions.SESSIONS,
    *sessions.MCP,
    *prompts.PROMPTS,
    *services.PERMISSIONS,
    *services.FILES_AND_TERMINALS,
    *services.ELICITATION,
    *prompts.CANCELLATION,
    *steering.STEERING_TURNS,
    *sessions.REOPENING,
    *sessions.SESSION_LIST,
    *sessions.OPTIONS,
    *connection.EXTENSIONS,
    *prompts.BACKGROUND,
    *connection.PROVIDERS,
    *connection.MALFORMED,
    *connection.SHUTDOWN,
]


def agent_scenarios() -> tuple[Scenario[AgentContext], ...]:
    """Return the scenarios for agents, those of extensions last."""
    load_extensions()
    return tuple(_scenarios)


def remote_scenarios(medium: Medium) -> tuple[Scenario[AgentContext], ...]:
    """Return the scenarios for agents at a URL: those for all agents, and those of its medium."""
    if medium == "stdio":
        return agent_scenarios()
    from accord_conformance.agent.scenarios import network  # needs the extra `remote`

    if medium == "websocket":
        return (*network.WEBSOCKET, *agent_scenarios())
    return (*network.HTTP_STREAMS, *network.HTTP_REQUESTS, *agent_scenarios())


def add_agent_scenarios(scenarios: Iterable[Scenario[AgentContext]]) -> None:
    """Add the scenarios of an extension."""
    _scenarios.extend(scenarios)
