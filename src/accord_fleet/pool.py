"""Warm agents: processes that serve several attempts, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord import ClientSession
from accord.errors import AccordError
from accord_fleet.parts import Gateway, Launch
from accord_fleet.running_agent import Listener, RunningAgent
from accord_fleet.types.agent import AgentSpec

__all__ = ("AgentPool",)


class AgentPool:
    """Starts agents, and keeps some of those that attempts give back."""

    def __init__(
        self, *, idle: int, gateway: Gateway | None, in_process: dict[str, Callable[[], Any]]
    ) -> None:
        self._most_idle = idle
        self._gateway = gateway
        self._in_process = in_process
        self._idle: list[RunningAgent] = []  # the oldest first

    async def take(
        self, spec: AgentSpec, launch: Launch, listener: Listener, timeout_s: float
    ) -> RunningAgent:
        """Return an agent that is connected; raise what `accord.connect` raises."""
        agent = RunningAgent(spec, launch, listener)
        await agent.start(self._gateway, self._in_process.get(spec.name), timeout_s)
        return agent

    async def give_back(
        self, agent: RunningAgent, session: ClientSession | None, *, is_clean: bool
    ) -> None:
        """Keep an agent for another attempt, or stop it."""
        try:
            await agent.aclose()
        except AccordError:
            pass
        finally:
            agent.listener = None

    async def aclose(self) -> None:
        """Stop all idle agents."""
        while self._idle:
            await self._idle.pop().aclose()
