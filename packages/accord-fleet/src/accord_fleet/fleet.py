"""A fleet: agents, and how their attempts are run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from accord import Agent
from accord.client.permissions import Policy, policies_of
from accord.transports.command_line import argv_of
from accord.transports.registry import is_url
from accord_fleet.agent_words import absolute_files
from accord_fleet.engines.local import LocalEngine
from accord_fleet.gateway.providers import Provider
from accord_fleet.grader_functions import reference_to
from accord_fleet.plan import RunSettings, work_items
from accord_fleet.run import Control, Engine
from accord_fleet.sandbox.settings import SandboxSettings, why_not_isolated
from accord_fleet.scratch import remove_abandoned
from accord_fleet.tasks.read import check_tasks
from accord_fleet.types import (
    AgentGrader,
    AgentSpec,
    CommandGrader,
    FleetError,
    FunctionGrader,
    GradedAttempt,
    Grader,
    Limits,
    Result,
    Task,
    Workspace,
)


class Fleet:
    """Gives tasks to agents."""

    def __init__(
        self,
        agents: Sequence[AgentSpec | str | Agent | type[Agent]],
        *,
        attempts: int = 1,
        workspace: Workspace | None = None,
        policy: Policy | Sequence[Policy] | None = None,
        grader: Grader | Callable[[GradedAttempt], Any] | None = None,
        limits: Limits | None = None,
        sandbox: SandboxSettings | None = None,
        providers: Sequence[Provider] = (),
        secrets: Sequence[str] = (),
        engine: Engine | None = None,
    ) -> None:
        """Raise `FleetError` for agents with the same name, a sandbox for an agent that it cannot
        isolate, and a grader that is not defined at the top of a file.

        An agent is a command, an `AgentSpec`, or a class or object of Python, which runs in this
        process. `workspace`, `grader` and `limits` are those of tasks that have none. `secrets`
        names further environment variables whose values are never stored.
        """
        self._defaults: dict[str, Any] = {}
        if workspace is not None:
            self._defaults["workspace"] = msgspec.to_builtins(workspace)
        if grader is not None:
            self._defaults["grader"] = msgspec.to_builtins(_grader(grader))
        if limits is not None:
            changed = {
                name: getattr(limits, name)
                for name in Limits.__struct_fields__
                if getattr(limits, name) != getattr(Limits(), name)
            }
            self._defaults["limits"] = changed
        self.agents: tuple[AgentSpec, ...] = tuple(map(_spec, agents))
        names = [agent.name for agent in self.agents]
        if len(set(names)) != len(names):
            raise FleetError(f"Expected agents with different names, got {', '.join(names)}")
        in_process = {
            spec.name: _factory(agent)
            for spec, agent in zip(self.agents, agents, strict=True)
            if isinstance(agent, (Agent, type))
        }
        if errors := why_not_isolated(sandbox, self.agents, in_process):
            raise FleetError("\n".join(errors))
        self.attempts: int = attempts
        self.engine: Engine = engine or LocalEngine()
        self.control: Control = Control()
        self._settings = RunSettings(
            agents=self.agents,
            policy=policies_of(policy),
            in_process=in_process,
            sandbox=sandbox,
            providers=tuple(providers),
            secrets=tuple(secrets),
        )

    async def run(
        self, tasks: str | Path | Iterable[Task | Mapping[str, Any]]
    ) -> AsyncGenerator[Result]:
        """Yield the results as they arrive; `tasks` are those that `check_tasks` takes.

        All tasks are checked before the first one is run: raises `TaskErrors`.
        """
        names = [agent.name for agent in self.agents]
        with await check_tasks(tasks, defaults=self._defaults, agents=names) as checked:
            await asyncio.to_thread(remove_abandoned)
            items = work_items(self.agents, self.attempts, checked)
            async for attempted in self.engine.run(items, self._settings, self.control):
                yield attempted.result


def _grader(given: Grader | Callable[[GradedAttempt], Any]) -> Grader:
    if isinstance(given, (AgentGrader, CommandGrader, FunctionGrader)):
        return given
    return FunctionGrader(function=reference_to(given))


def _factory(agent: Agent | type[Agent]) -> Callable[[], Agent]:
    return agent if isinstance(agent, type) else lambda: agent


def _spec(agent: AgentSpec | str | Agent | type[Agent]) -> AgentSpec:
    if isinstance(agent, AgentSpec):
        return agent
    if isinstance(agent, (Agent, type)):
        name = agent.__name__ if isinstance(agent, type) else type(agent).__name__
        return AgentSpec(name=name, command=(f"python:{name}",))
    words = (agent,) if is_url(agent) else absolute_files(argv_of(agent), Path.cwd())
    return AgentSpec(name=Path(words[0]).name, command=words)
