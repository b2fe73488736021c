"""What the attempts on one machine share: warm agents, workspaces, graders, and guards.

The guards are the gateway, the sandbox, the breaker, the watcher of processes and the redaction.
An agent that grades is asked here (`Machine.ask`), because it has the guards of an attempt.

All of them raise `AttemptFailed` or `LimitReached` for what goes wrong in one attempt. Any other
exception counts as a bug: the attempt fails with its traceback.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from accord import ClientSession, UsageChanged
from accord.client.permissions import Policy
from accord.errors import AccordError, TransportError
from accord.text.redact import secret_variables
from accord_fleet.agents import AgentPool, AttemptUsage, Direction, RunningAgent, launch_for
from accord_fleet.breaker import AgentBreaker, Breaker
from accord_fleet.gateway.limiter import KeyLimits, KeyWait, Limiter, LocalLimiter
from accord_fleet.gateway.providers import Provider, providers_of
from accord_fleet.graders import Answer, ProcessGraders
from accord_fleet.plan import RunSettings
from accord_fleet.processes import ProcessWatcher
from accord_fleet.redaction import Redactor, StderrTail
from accord_fleet.run import OnWait
from accord_fleet.scratch import scratch_folder
from accord_fleet.types import AgentSpec, GradedAttempt, LimitName, Limits
from accord_fleet.workspaces.prepare import FolderWorkspaces

if TYPE_CHECKING:
    from accord_fleet.gateway.gateway import ModelGateway
    from accord_fleet.sandbox.bubblewrap import BubblewrapSandbox


# Guards.


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """The guards of one machine."""

    gateway: ModelGateway | None = None
    sandbox: BubblewrapSandbox | None = None
    breaker: Breaker = msgspec.field(default_factory=AgentBreaker)
    watcher: ProcessWatcher = msgspec.field(default_factory=ProcessWatcher)
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    hidden: tuple[str, ...] = ()
    """Variables of this machine with secrets, which graders do not get."""
    processes: int | None = None
    """Processes of an attempt whose limits have none."""

    def limits(self, limits: Limits) -> Limits:
        """Return limits with those of the sandbox."""
        if limits.processes is not None or self.processes is None:
            return limits
        return msgspec.structs.replace(limits, processes=self.processes)


def providers_for(settings: RunSettings) -> dict[str, Provider]:
    """Return the providers of the agents by name; raise `ProviderError` for an unknown one."""
    names = {agent.name: agent.provider for agent in settings.agents if agent.provider is not None}
    return providers_of(names, tuple(settings.providers))


def key_limits(settings: RunSettings) -> dict[str, KeyLimits]:
    """Return what the limiter of a run needs, which an actor may host."""
    return {
        name: KeyLimits(
            requests_per_minute=provider.requests_per_minute,
            tokens_per_minute=provider.tokens_per_minute,
        )
        for name, provider in providers_for(settings).items()
    }


def secrets_of(settings: RunSettings) -> Redactor:
    """Return what removes the secrets of this machine, and those of the agents' variables."""
    names = _secret_names(settings)
    names |= {provider.key for provider in settings.providers}
    redactor = Redactor(os.environ[name] for name in names if name in os.environ)
    for agent in settings.agents:
        redactor.add(secret_variables(agent.env).values())
    return redactor


def _secret_names(settings: RunSettings) -> set[str]:
    named = (name for agent in settings.agents for name in (*agent.secrets, agent.token_variable))
    return {*secret_variables(os.environ), *settings.secrets, *named}


@asynccontextmanager
async def open_guards(
    settings: RunSettings,
    *,
    limiter: Limiter | None = None,
    breaker: Breaker | None = None,
    on_wait: OnWait | None = None,
) -> AsyncGenerator[Guards]:
    """Make the guards of a run on this machine.

    `limiter` and `breaker` are given in a slot of a cluster, where those of the whole cluster are
    in other processes. `on_wait` is called when agents wait. Raise
    `ProviderError` if the key of a provider is missing, and `SandboxError` if a sandbox is asked
    for that is not available.
    """
    names = _secret_names(settings)
    redactor = secrets_of(settings)
    async with AsyncExitStack() as stack:
        gateway, way = None, None
        if providers := providers_for(settings):
            # Only a run with providers needs a server.
            from accord_fleet.gateway.gateway import open_gateway

            if limiter is None:
                said = None if on_wait is None else partial(say_key_wait, settings, on_wait)
                limiter = LocalLimiter(key_limits(settings), said)
            gateway = await stack.enter_async_context(
                open_gateway(tuple(providers.values()), limiter)
            )
            redactor.add(gateway.secrets)
            names |= {provider.key for provider in providers.values()}
            way = (gateway.socket, gateway.port)
        sandbox, processes = None, None
        if settings.sandbox is not None and settings.sandbox.mode != "off":
            from accord_fleet.sandbox.bubblewrap import open_sandbox

            opened = open_sandbox(settings.sandbox, gateway=way)
            sandbox = await stack.enter_async_context(opened)
            processes = settings.sandbox.processes

        def held(agent: str, why: str | None) -> None:
            if on_wait is not None:
                on_wait(agent, None if why is None else redactor.text(why))

        yield Guards(
            gateway=gateway,
            sandbox=sandbox,
            breaker=breaker or AgentBreaker(on_wait=held),
            redactor=redactor,
            hidden=tuple(sorted(names)),
            processes=processes,
        )


def say_key_wait(settings: RunSettings, on_wait: OnWait, name: str, wait: KeyWait | None) -> None:
    """Say that the requests of a provider's agents wait; the key is named by its variable."""
    agents = ", ".join(agent.name for agent in settings.agents if agent.provider == name)
    if wait is None:
        on_wait(agents, None)
        return
    requests = "1 request" if wait.requests == 1 else f"{wait.requests:,} requests"
    why = "the pause that the provider asked for, with" if wait.is_paused else "the limit of"
    seconds = max(1, round(wait.seconds))
    key = providers_for(settings)[name].key
    on_wait(agents, f"waiting {seconds} s for {why} the key in {key} ({requests})")


# Agents that grade: one prompt, with the guards of an attempt.

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


class Machine:
    """The parts that attempts use; made by `open_machine`, once for each process of an engine."""

    def __init__(
        self,
        settings: RunSettings,
        scratch: Path,
        pool: AgentPool,
        *,
        workspaces: FolderWorkspaces,
        graders: ProcessGraders,
        guards: Guards | None = None,
    ) -> None:
        self.settings: RunSettings = settings
        self.scratch: Path = scratch
        """A folder for workspaces and recordings of running attempts."""
        self.pool: AgentPool = pool
        self.workspaces: FolderWorkspaces = workspaces
        self.graders: ProcessGraders = graders
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
