"""A fleet: agents, and how their attempts are run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path

from accord.client.permissions import Policy, policies_of
from accord.transports.command_line import argv_of
from accord_fleet.control import Control
from accord_fleet.engines.engine import Engine, RunSettings
from accord_fleet.engines.local import LocalEngine
from accord_fleet.plan import work_items
from accord_fleet.types.agent import AgentSpec
from accord_fleet.types.result import Result
from accord_fleet.types.task import Task

__all__ = ("Fleet",)


class Fleet:
    """Gives tasks to agents."""

    def __init__(
        self,
        agents: Sequence[AgentSpec | str],
        *,
        attempts: int = 1,
        policy: Policy | Sequence[Policy] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.agents: tuple[AgentSpec, ...] = tuple(map(_spec, agents))
        self.attempts: int = attempts
        self.engine: Engine = engine or LocalEngine()
        self.control: Control = Control()
        self._settings = RunSettings(agents=self.agents, policy=policies_of(policy))

    async def run(self, tasks: Iterable[Task]) -> AsyncGenerator[Result]:
        """Yield the results as they arrive."""
        items = work_items(self.agents, self.attempts, tasks)
        async for attempted in self.engine.run(items, self._settings, self.control):
            yield attempted.result


def _spec(agent: AgentSpec | str) -> AgentSpec:
    if isinstance(agent, AgentSpec):
        return agent
    words = tuple(argv_of(agent))
    return AgentSpec(name=Path(words[0]).name, command=words)
