"""Warm agents: processes that serve several attempts, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from accord import ClientSession
from accord.errors import AccordError
from accord_fleet.descendants import descendants
from accord_fleet.parts import Gateway, Launch
from accord_fleet.running_agent import Listener, RunningAgent
from accord_fleet.types.agent import AgentSpec

_ATTEMPTS = 1000  # that one process serves
_ATTEMPTS_OPEN = 50  # if its sessions cannot be closed, and stay in memory
_CLOSE_S = 5.0  # for the agent to close a session


class AgentPool:
    """Starts agents, and keeps those that can serve another attempt.

    An agent is used again if the attempt before ended all its turns, and left no process running
    that was not running before. Running and idle agents are never more than `size` together, if
    there are never more than `size` attempts.
    """

    def __init__(
        self,
        size: int,
        *,
        gateway: Gateway | None = None,
        in_process: Mapping[str, Callable[[], Any]] | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` has the folders in which agents start whose launch names none."""
        self.started: int = 0
        """Number of agents that were started."""
        self._size = size
        self._gateway = gateway
        self._in_process = in_process or {}
        self._folder = folder
        self._idle: list[RunningAgent] = []  # the one that was used last is at the end
        self._busy = 0

    async def take(
        self, spec: AgentSpec, launch: Launch, listener: Listener, timeout_s: float
    ) -> RunningAgent:
        """Return an agent that is connected; raise what `accord.connect` raises.

        It is idle before the attempt, or a new process. Give it back in any case.
        """
        self._busy += 1
        try:
            while (agent := self._matching(spec, launch)) is not None:
                if not agent.has_ended:
                    agent.listener = listener
                    agent.is_new = False
                    return agent
                await _stop(agent)
            return await self._start(spec, launch, listener, timeout_s)
        except BaseException:
            self._busy -= 1
            raise

    async def replace(self, agent: RunningAgent, timeout_s: float) -> RunningAgent:
        """Return a new process instead of an idle agent that turned out to have ended."""
        listener = agent.listener
        assert listener is not None
        try:
            await _stop(agent)
            return await self._start(agent.spec, agent.launch, listener, timeout_s)
        except BaseException:
            self._busy -= 1
            raise

    async def give_back(
        self, agent: RunningAgent, session: ClientSession | None, *, is_clean: bool
    ) -> None:
        """Keep an agent for another attempt, or stop it."""
        keeps = False
        try:
            keeps = is_clean and session is not None and await self._can_stay(agent, session)
        finally:
            if not keeps:
                await _stop(agent)
            agent.listener = None
            self._busy -= 1
        if keeps:
            self._idle.append(agent)
            await self._make_room(0)

    async def aclose(self) -> None:
        """Stop all idle agents, at the same time."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(_stop, idle))

    def _matching(self, spec: AgentSpec, launch: Launch) -> RunningAgent | None:
        for agent in reversed(self._idle):
            if agent.spec is spec and agent.launch == launch:
                self._idle.remove(agent)
                return agent
        return None

    async def _start(
        self, spec: AgentSpec, launch: Launch, listener: Listener, timeout_s: float
    ) -> RunningAgent:
        await self._make_room(0)
        agent = RunningAgent(spec, launch, listener, self._folder)
        self.started += 1
        await agent.start(self._gateway, self._in_process.get(spec.name), timeout_s)
        if agent.pid is not None and spec.warm:
            agent.children = descendants(agent.pid)
        return agent

    async def _make_room(self, needed: int) -> None:
        while self._idle and len(self._idle) + self._busy + needed > self._size:
            await _stop(self._idle.pop(0))

    async def _can_stay(self, agent: RunningAgent, session: ClientSession) -> bool:
        """Close the session; return whether the agent can serve another attempt."""
        if not agent.spec.warm or not agent.launch.is_shared:
            return False
        agent.attempts += 1
        closes = agent.agent.supports("close_session")
        if agent.attempts >= (_ATTEMPTS if closes else _ATTEMPTS_OPEN):
            return False
        if closes:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await session.close()
            except (AccordError, TimeoutError):
                return False
        if agent.has_ended:
            return False
        return agent.pid is None or descendants(agent.pid) <= agent.children


async def _stop(agent: RunningAgent) -> None:
    with suppress(AccordError):
        await agent.aclose()
