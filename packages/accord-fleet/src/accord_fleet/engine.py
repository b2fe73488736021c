"""What an engine is: it runs work items and yields their outcomes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from accord_fleet.control import Control
from accord_fleet.gateway.providers import Provider
from accord_fleet.sandbox.settings import SandboxSettings
from accord_fleet.types.agent import AgentSpec
from accord_fleet.types.result import Result
from accord_fleet.types.task import Permissions, WorkItem


class Attempted(NamedTuple):
    """The outcome of one attempt."""

    result: Result
    trace: Path | bytes | None
    """The finished recording: a temporary file, which the receiver moves or removes, or its
    contents."""


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


class Engine(Protocol):
    """Runs attempts. The items are read only when there is room for them, and nothing is lost.

    When `control.is_stopping`, no further items are read. When `control.is_cancelling`, running
    attempts are cancelled, and their results are `cancelled`. `control.begin` is awaited before an
    attempt begins: after a loss of the driver, that decides whether it may be repeated.
    """

    def run(
        self,
        items: Iterable[WorkItem] | AsyncIterable[WorkItem],
        settings: RunSettings,
        control: Control,
    ) -> AsyncGenerator[Attempted, None]:
        """Yield the outcomes as they arrive; the caller closes the generator."""
        ...
