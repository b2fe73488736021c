"""Which agents a sandbox cannot isolate."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from accord.text.excerpt import one_line
from accord.transports.registry import is_url
from accord_fleet.sandbox.settings import SandboxSettings
from accord_fleet.types.agent import AgentSpec


def why_not_isolated(
    sandbox: SandboxSettings | None, agents: Iterable[AgentSpec], in_process: Collection[str] = ()
) -> list[str]:
    """Return an error for each agent that runs elsewhere, or in this process (`in_process`)."""
    if sandbox is None or sandbox.mode == "off":
        return []
    errors: list[str] = []
    for agent in agents:
        if agent.name in in_process:
            errors.append(f"The sandbox cannot isolate {agent.name}, which runs in this process")
        elif is_url(agent.command[0]):
            place = one_line(agent.command[0], 200)
            errors.append(f"The sandbox cannot isolate {agent.name}, which runs elsewhere: {place}")
    return errors
