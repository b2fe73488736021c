"""The scenarios that are played with agents, one file per area.

Another one is a coroutine function under `scenario`, in the file of its area and in `SCENARIOS`
there. It names the rules that it tells of, plays, and judges: only what came into play, and
nothing that another model, or another moment, might have made different.
"""

from __future__ import annotations

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
    nes,
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

__all__ = ("AGENT_SCENARIOS",)

AGENT_SCENARIOS: tuple[Scenario[AgentContext], ...] = (
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
    *nes.SCENARIOS,
    *malformed.SCENARIOS,
    *shutdown.SCENARIOS,
)
