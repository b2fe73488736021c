"""What an attempt uses, each as a small protocol: workspaces, sandbox, gateway, graders.

Their methods raise `AttemptFailed` or `LimitReached` for what goes wrong in one attempt. Any other
exception counts as a bug: the attempt fails with its traceback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from accord_fleet.types import (
    AgentSpec,
    GradedAttempt,
    Grader,
    LimitName,
    Limits,
    Result,
    Task,
    Usage,
    Verdict,
)

OnLimit = Callable[[LimitName, str], None]
"""Is called with the limit that was reached, and a sentence with its value."""


class WorkspaceDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt changed in its workspace."""

    text: str = ""
    """A unified diff, cut at a limit."""
    files: tuple[str, ...] = ()
    """The relative paths of the changed files; for renamed ones, both."""
    cut: bool = False
    """Whether the text ends at the limit."""
    problem: str | None = None
    """Why changes are missing, for example because git is not installed."""


class PreparedWorkspace(Protocol):
    """The folder of one attempt."""

    @property
    def path(self) -> Path:
        """The folder, absolute and without symbolic links; the agent works in it."""
        ...

    async def diff(self) -> WorkspaceDiff:
        """Return the changes since the folder was prepared."""
        ...

    async def remove(self) -> None:
        """Remove the folder, also if the agent has made files that cannot be written."""
        ...


class Workspaces(Protocol):
    """Prepares workspaces; one object for each machine, which may cache what tasks share."""

    async def prepare(self, task: Task, folder: Path) -> PreparedWorkspace:
        """Make `folder`, which does not exist, the workspace of a task, with its `files`.

        Nothing is left in it if this fails.
        """
        ...


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of an agent is started. Attempts with an equal launch share warm agents."""

    argv: tuple[str, ...]
    env: dict[str, str | None] = {}
    """Changes of the inherited environment; None removes a variable."""
    cwd: str = ""
    """Where it starts; "" is a new folder for each process."""
    is_shared: bool = True
    """Whether attempts can share an agent that was started like this."""


class Sandbox(Protocol):
    """Isolates the processes of agents; one object for each machine."""

    def plan(self, launch: Launch, workspace: Path, secrets: Sequence[str] = ()) -> Launch:
        """Return the launch with the sandbox around it.

        `secrets` are names of variables of this machine that the command gets.
        """
        ...


class Watcher(Protocol):
    """Watches what the processes of attempts use; one object for each machine."""

    def watch(self, pid: int, limits: Limits, on_limit: OnLimit) -> AbstractContextManager[object]:
        """Watch a process and its children in the block; the agent is stopped by the caller."""
        ...


class GatewayAccess(Protocol):
    """The access of one agent's process to its provider of models."""

    @property
    def env(self) -> dict[str, str | None]:
        """Variables for the agent's process: the address of the gateway and a worthless token.

        None removes a variable with a key.
        """
        ...

    def begin(self, limits: Limits, on_limit: OnLimit | None = None) -> None:
        """Begin an attempt: it has used nothing yet, and `on_limit` is called at its limits."""
        ...

    def usage(self) -> Usage:
        """Return what the attempt has used so far; None where nothing was counted."""
        ...


class Gateway(Protocol):
    """Forwards requests of agents to the providers of models; one object for each machine."""

    def open(self, provider: str) -> AbstractAsyncContextManager[GatewayAccess]:
        """Admit one process of an agent to a provider in the block."""
        ...


class Breaker(Protocol):
    """Holds back the attempts of an agent that fails repeatedly."""

    async def before(self, agent: AgentSpec) -> None:
        """Wait until an attempt may start; raise `AttemptFailed` if it must not."""
        ...

    def after(self, agent: AgentSpec, result: Result) -> None:
        """Count a result."""
        ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent that grades has answered."""

    text: str
    usage: Usage = Usage()
    error: str | None = None
    """Why there is no answer."""


AskAgent = Callable[[str, str, GradedAttempt, float], Awaitable[Answer]]
"""Asks an agent of the fleet about an attempt: its name, a prompt, the attempt, seconds."""


class Graders(Protocol):
    """Grades attempts; one object for each machine."""

    async def grade(self, grader: Grader, attempt: GradedAttempt, ask: AskAgent) -> Verdict:
        """Return the verdict; a grader that fails is a verdict with `error`."""
        ...
