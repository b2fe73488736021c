"""An agent of the fleet that grades an attempt: one prompt, with the guards of an attempt."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from accord import ClientSession, UsageChanged
from accord.client.permissions import Policy
from accord.errors import AccordError, TransportError
from accord_fleet.attempt_usage import AttemptUsage
from accord_fleet.guards import Guards
from accord_fleet.launches import launch_for
from accord_fleet.parts import Answer
from accord_fleet.pool import AgentPool
from accord_fleet.running_agent import Direction, RunningAgent
from accord_fleet.stderr_tail import StderrTail
from accord_fleet.types.agent import AgentSpec
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.types.limits import LimitName

_STDERR_CHARS = 2000
_CANCEL_S = 2.0  # to end the turn at a limit


async def ask_agent(
    pool: AgentPool,
    guards: Guards,
    spec: AgentSpec,
    prompt: str,
    attempt: GradedAttempt,
    timeout_s: float,
) -> Answer:
    """Ask an agent one prompt in the workspace of an attempt; return its answer, or why none.

    It runs in the sandbox, uses the gateway, and has the limits of the task for itself. Its
    permission requests are rejected.
    """
    return await _Asked(pool, guards, spec, attempt).ask(prompt, timeout_s)


class _Asked:
    """The state of one question; the `Listener` of the agent."""

    policy: Policy | None = None

    def __init__(
        self, pool: AgentPool, guards: Guards, spec: AgentSpec, attempt: GradedAttempt
    ) -> None:
        self._pool = pool
        self._guards = guards
        self._spec = spec
        self._attempt = attempt
        self._limits = attempt.task.limits
        self.name: str = f"{attempt.task.id} graded by {spec.name}"
        self._usage = AttemptUsage()
        self._agent: RunningAgent | None = None
        self._timeout: asyncio.Timeout | None = None
        self._reached: str | None = None
        self._output_bytes = 0
        self._stderr = StderrTail(guards.redactor, _STDERR_CHARS)

    async def ask(self, prompt: str, timeout_s: float) -> Answer:
        text, error = "", None
        try:
            async with asyncio.timeout(timeout_s) as self._timeout:
                text = await self._answer(prompt, timeout_s)
        except (AccordError, TimeoutError) as caught:
            error = f"{self._spec.name} took more than {timeout_s:g} s"
            if self._reached is not None:
                error = self._reached
            elif isinstance(caught, AccordError):
                said = self._stderr.text().strip()
                error = f"{self._spec.name}: {caught}{f': {said}' if said else ''}"
        self._timeout = None
        self._count()
        return Answer(text=text, usage=self._usage.total(), error=error)

    async def _answer(self, prompt: str, timeout_s: float) -> str:
        folder = self._attempt.workspace
        launch = launch_for(self._spec, self._attempt.task, folder, self._guards.sandbox)
        session: ClientSession | None = None
        is_clean = False
        with ExitStack() as watching:
            try:
                self._guard(await self._pool.take(self._spec, launch, self, timeout_s), watching)
                session = await self._new_session(folder, watching, timeout_s)
                turn = session.prompt(prompt, cancel_timeout_s=_CANCEL_S)
                async with turn:
                    async for event in turn:
                        if type(event) is UsageChanged:
                            self._usage.on_context(event.usage)
                            self._check_usage()
                self._usage.on_turn_end(turn.token_usage)
                is_clean = self._reached is None
                return self._guards.redactor.text(turn.text)
            finally:
                # Only an agent that has ended its turn serves another attempt.
                watching.close()
                if self._agent is not None:
                    await self._pool.give_back(self._agent, session, is_clean=is_clean)

    def _guard(self, agent: RunningAgent, watching: ExitStack) -> None:
        self._agent = agent
        if agent.access is not None:
            agent.access.begin(self._limits, self._limit)
        watching.close()
        if agent.pid is not None:
            limits = self._guards.limits(self._limits)
            watching.enter_context(self._guards.watcher.watch(agent.pid, limits, self._overrun))

    async def _new_session(
        self, folder: Path, watching: ExitStack, timeout_s: float
    ) -> ClientSession:
        assert self._agent is not None
        try:
            return await self._agent.agent.new_session(folder)
        except TransportError:
            if self._agent.is_new:
                raise
        # It has ended after the attempt before this one.
        ended, self._agent = self._agent, None
        agent = await self._pool.replace(ended, timeout_s)
        self._guard(agent, watching)
        return await agent.agent.new_session(folder)

    # Limits.

    def _check_usage(self) -> None:
        self._count()
        if (reached := self._usage.reached(self._limits)) is not None:
            self._limit(*reached)

    def _count(self) -> None:
        if self._agent is not None and self._agent.access is not None:
            self._usage.on_gateway(self._agent.access.usage())

    def _limit(self, limit: LimitName, message: str) -> None:
        if self._reached is None:
            self._reached = f"{self._spec.name} reached the limit {limit}: {message}"
            if self._timeout is not None and not self._timeout.expired():
                self._timeout.reschedule(asyncio.get_running_loop().time())

    def _overrun(self, limit: LimitName, message: str) -> None:
        self._limit(limit, message)
        if self._agent is not None:
            self._agent.kill()

    # What the agent sends: `Listener`.

    def frame(self, direction: Direction, frame: bytes | bytearray) -> None:
        """Do nothing: the messages of graders are not recorded."""

    def stderr_line(self, line: str) -> None:
        """Keep the end of stderr."""
        self._stderr.add(line)

    def output(self, size_bytes: int) -> None:
        """Count what the agent sends."""
        self._output_bytes += size_bytes
        most = self._limits.output_bytes
        if most is not None and self._output_bytes > most:
            self._overrun("output_bytes", f"It sent more than {most} bytes")
