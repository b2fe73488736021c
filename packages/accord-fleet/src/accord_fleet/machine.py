"""What the attempts on one machine share."""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import secrets
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from accord_fleet.asked_agent import ask_agent
from accord_fleet.control import OnWait
from accord_fleet.engine import RunSettings
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.graders.grade import ProcessGraders
from accord_fleet.guards import Guards, open_guards
from accord_fleet.parts import Answer, Breaker, Graders, Workspaces
from accord_fleet.pool import AgentPool
from accord_fleet.scratch import scratch_folder
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.workspaces.prepare import FolderWorkspaces


class Machine:
    """The parts that attempts use; made by `open_machine`, once for each process of an engine."""

    def __init__(
        self,
        settings: RunSettings,
        scratch: Path,
        pool: AgentPool,
        *,
        workspaces: Workspaces,
        graders: Graders,
        guards: Guards | None = None,
    ) -> None:
        self.settings: RunSettings = settings
        self.scratch: Path = scratch
        """A folder for workspaces and recordings of running attempts."""
        self.pool: AgentPool = pool
        self.workspaces: Workspaces = workspaces
        self.graders: Graders = graders
        self.guards: Guards = guards or Guards()
        self.name: str = f"{platform.node()}:{os.getpid()}"
        """What results have as `machine`."""
        recordings = Path(settings.recordings) if settings.recordings else scratch
        self._recordings = recordings if recordings.is_dir() else scratch
        self._numbers = itertools.count(1)

    def new_folder(self) -> Path:
        """Return the path of a folder that does not exist, and that no agent can guess."""
        return self.scratch / f"w{next(self._numbers)}-{secrets.token_hex(8)}"

    def new_recording(self) -> Path:
        """Return the path of a recording that does not exist, and that no agent can guess."""
        name = f"r{os.getpid()}-{next(self._numbers)}-{secrets.token_hex(8)}.acp.jsonl.gz"
        return self._recordings / name

    async def ask(
        self, agent: str, prompt: str, attempt: GradedAttempt, timeout_s: float
    ) -> Answer:
        """Ask an agent of the fleet one prompt about an attempt; return its answer."""
        spec = self.settings.agent(agent)
        return await ask_agent(self.pool, self.guards, spec, prompt, attempt, timeout_s)


@asynccontextmanager
async def open_machine(
    settings: RunSettings,
    *,
    jobs: int,
    limiter: Limiter | None = None,
    breaker: Breaker | None = None,
    on_wait: OnWait | None = None,
) -> AsyncGenerator[Machine]:
    """Make the parts for attempts of a run on this machine; remove everything at the end.

    `limiter` limits the requests to models on all machines together; `breaker` is given where
    another process counts the starts of agents. `on_wait` is called when agents or providers wait.
    """
    stack = ExitStack()
    scratch = stack.enter_context(scratch_folder())
    try:
        async with open_guards(
            settings, limiter=limiter, breaker=breaker, on_wait=on_wait
        ) as guards:
            pool = AgentPool(
                jobs, gateway=guards.gateway, in_process=settings.in_process, folder=scratch
            )
            workspaces = FolderWorkspaces(scratch)
            try:
                yield Machine(
                    settings,
                    scratch,
                    pool,
                    workspaces=workspaces,
                    graders=ProcessGraders(guards.hidden, guards.sandbox, guards.redactor.text),
                    guards=guards,
                )
            finally:
                await pool.aclose()
                await workspaces.aclose()
    finally:
        await asyncio.to_thread(stack.close)
