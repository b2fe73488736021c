"""The scenarios that are played with agents, one file per area.

Another one is a coroutine function under `scenario`, in the file of its area and in `SCENARIOS`
there. It names the rules that it tells of, plays, and judges: only what came into play, and
nothing that another model, or another moment, might have made different.
"""

from __future__ import annotations

from accord.conformance.play.agent import (
    asking,
    beside,
    cancelling,
    extensions,
    handshake,
    listing,
    login,
    machine,
    malformed,
    mcp,
    nes,
    opening,
    options,
    permissions,
    process,
    prompts,
    providers,
    sessions,
)
from accord.conformance.play.scenario import Scenario
from accord.conformance.play.stage import Stage

__all__ = ("AGENT_SCENARIOS",)

AGENT_SCENARIOS: tuple[Scenario[Stage], ...] = (
    *handshake.SCENARIOS,
    *login.SCENARIOS,
    *sessions.SCENARIOS,
    *mcp.SCENARIOS,
    *prompts.SCENARIOS,
    *permissions.SCENARIOS,
    *machine.SCENARIOS,
    *asking.SCENARIOS,
    *cancelling.SCENARIOS,
    *opening.SCENARIOS,
    *listing.SCENARIOS,
    *options.SCENARIOS,
    *extensions.SCENARIOS,
    *beside.SCENARIOS,
    *providers.SCENARIOS,
    *nes.SCENARIOS,
    *malformed.SCENARIOS,
    *process.SCENARIOS,
)
