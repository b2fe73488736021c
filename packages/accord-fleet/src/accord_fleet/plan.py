"""The plan of a run: what is stored in `RUN/run.json`, and what follows from it for its attempts.

`work_items` yields the attempts, and `settings_for` what they have in common.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
)
from itertools import islice, product
from typing import Any

import msgspec

from accord_fleet.gateway.providers import Provider
from accord_fleet.sandbox.settings import SandboxSettings
from accord_fleet.types import AgentSpec, Permissions, Task, WorkItem


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run have in common; it can be pickled."""

    agents: tuple[AgentSpec, ...]
    permissions: Permissions = Permissions()
    """Rules after those of the task."""
    policy: tuple[Any, ...] = ()
    """Policies of `accord.client.permissions`, after all rules."""
    in_process: dict[str, Any] = {}
    """Agents in Python by name: classes, or functions that return an agent."""
    sandbox: SandboxSettings | None = None
    providers: tuple[Provider, ...] = ()
    """Providers of models, with the names of the variables that have their keys."""
    secrets: tuple[str, ...] = ()
    """Further environment variables whose values are never stored."""
    records: bool = True
    """Whether messages are recorded."""
    recordings: str | None = None
    """A folder for finished recordings, on the machine where it exists."""
    cancel_s: float = 10.0
    """Seconds in which an agent has to end a cancelled turn."""

    def agent(self, name: str) -> AgentSpec:
        """Return an agent by name; raise `KeyError` if it does not exist."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise KeyError(name)


_BLOCK = 32  # tasks that one agent gets before the next agent does


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does; with the tasks, it is everything that `accord fleet resume` needs."""

    version: int = 1
    created: float
    """Seconds since 1970."""
    agents: tuple[AgentSpec, ...]
    attempts: int = 1
    """Attempts of each agent at each task."""
    tasks: int
    """Number of tasks."""
    digest: str
    """SHA-256 of the tasks as they are stored."""
    permissions: Permissions = Permissions()
    sandbox: SandboxSettings | None = None
    providers: tuple[Provider, ...] = ()
    """Providers of models, with the names of the variables that have their keys."""
    secrets: tuple[str, ...] = ()
    """Names of further environment variables whose values are never stored."""
    jobs: int = 1
    engine: str = "local"
    """`local`, or the address of a cluster."""
    imported: tuple[str, ...] = ()
    """Logs of evaluators that have the results; such a run has ended."""

    @property
    def total(self) -> int:
        """Number of attempts."""
        return self.tasks * len(self.agents) * self.attempts


def work_items(
    agents: Iterable[AgentSpec],
    attempts: int,
    tasks: Iterable[Task],
    is_done: Callable[[tuple[str, str, int]], bool] | None = None,
) -> Iterator[WorkItem]:
    """Yield the attempts that have no row yet; tasks are read as needed.

    Each agent gets several tasks before the next agent does, so that its processes serve them.
    """
    names = [agent.name for agent in agents]
    left = iter(tasks)
    while block := list(islice(left, _BLOCK)):
        for name, task, attempt in product(names, block, range(1, attempts + 1)):
            item = WorkItem(task=task, agent=name, attempt=attempt)
            if is_done is None or not is_done(item.key):
                yield item


def settings_for(plan: Plan) -> RunSettings:
    """Return what all attempts of a run have in common."""
    return RunSettings(
        agents=plan.agents,
        permissions=plan.permissions,
        sandbox=plan.sandbox,
        providers=plan.providers,
        secrets=plan.secrets,
    )
