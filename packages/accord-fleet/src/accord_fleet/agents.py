"""The processes of agents: how they are started, what they use, and how they serve many attempts.

A `RunningAgent` is connected and tells the attempt that it works on, its `Listener`, what it
sends. An `AgentPool` keeps warm those that can serve another attempt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import accord
from accord import ClientSession, ConnectedAgent, ContextUsage, PermissionRequest, TokenUsage
from accord.client.permissions import Policy
from accord.errors import AccordError
from accord.text.excerpt import one_line, visible
from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from accord.transports.process import ProcessTransport, process
from accord.transports.registry import is_url
from accord_fleet.processes import descendants
from accord_fleet.scratch import remove_tree
from accord_fleet.types import AgentSpec, Launch, LimitName, Limits, Task, Usage

if TYPE_CHECKING:
    from accord_fleet.gateway.gateway import GatewayAccess, ModelGateway
    from accord_fleet.sandbox.bubblewrap import BubblewrapSandbox


# Warnings name the attempt: many attempts write to one stderr.

_name: ContextVar[Callable[[], str | None] | None] = ContextVar(
    "accord_fleet_attempt", default=None
)


def attempt_name(task: str, agent: str, attempt: int) -> str:
    """Return how a person finds an attempt, such as `fix-1 by claude`."""
    return f"{task} by {agent}" + (f", attempt {attempt}" if attempt > 1 else "")


@contextmanager
def working_for(name: Callable[[], str | None]) -> Generator[None]:
    """Name what is logged in the block, and by the tasks that it starts; `name` is asked then."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


@contextmanager
def named_warnings(redact: Callable[[str], str]) -> Generator[None]:
    """Write warnings of Accord to stderr in the block, with the attempt and without secrets."""
    handler = _Stderr(redact)
    logger = logging.getLogger("accord")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Stderr(logging.Handler):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning; `sys.stderr` is looked up, because progress may replace it."""
        try:
            asked = _name.get()
            name = None if asked is None else asked()
            text = visible(self._redact(self.format(record)))
            sys.stderr.write(f"{one_line(name, 200)}: {text}\n" if name else f"{text}\n")
        except Exception:  # noqa: BLE001  # as logging does
            self.handleError(record)


class AttemptUsage:
    """Tokens and cost of one attempt.

    What the gateway has counted replaces what the agent reports.
    """

    def __init__(self) -> None:
        self._input = 0
        self._output = 0
        self._total = 0
        self._is_reported = False
        self._cost: float | None = None
        self._currency: str | None = None
        self._gateway: Usage | None = None

    @property
    def tokens(self) -> int:
        """All tokens so far; 0 if nothing was reported."""
        return self.total().total_tokens or 0

    @property
    def cost(self) -> float:
        """The cost so far; 0 if nothing was reported."""
        return self.total().cost or 0.0

    def on_context(self, usage: ContextUsage) -> None:
        """Take the cost of the session so far."""
        if usage.cost is not None:
            self._cost, self._currency = usage.cost.amount, usage.cost.currency

    def on_turn_end(self, usage: TokenUsage | None) -> None:
        """Add the tokens of a turn."""
        if usage is not None:
            self._is_reported = True
            self._input += usage.input
            self._output += usage.output
            self._total += usage.total

    def on_gateway(self, usage: Usage) -> None:
        """Take what the gateway has counted in this attempt."""
        self._gateway = usage

    def reached(self, limits: Limits) -> tuple[LimitName, str] | None:
        """Return the limit that is exceeded, and a sentence about it."""
        if limits.tokens is not None and self.tokens > limits.tokens:
            return "tokens", f"The turns used {self.tokens} tokens of {limits.tokens}"
        if limits.cost is not None and self.cost > limits.cost:
            return "cost", f"The turns cost {self.cost:g} of {limits.cost:g}"
        return None

    def total(self) -> Usage:
        """Return the sum."""
        gateway = self._gateway
        if gateway is not None and gateway.total_tokens is not None:
            return Usage(
                input_tokens=gateway.input_tokens,
                output_tokens=gateway.output_tokens,
                total_tokens=gateway.total_tokens,
                cost=self._cost if gateway.cost is None else gateway.cost,
                currency=self._currency if gateway.cost is None else gateway.currency,
            )
        if not self._is_reported:
            return Usage(cost=self._cost, currency=self._currency)
        return Usage(
            input_tokens=self._input,
            output_tokens=self._output,
            total_tokens=self._total,
            cost=self._cost,
            currency=self._currency,
        )


def launch_for(
    spec: AgentSpec, task: Task, workspace: Path, sandbox: BubblewrapSandbox | None
) -> Launch:
    """Return the launch, in the sandbox if there is one; raise `AttemptFailed` if it cannot run."""
    launch = Launch(
        argv=spec.command,
        env={**spec.env, **task.env},
        cwd="" if spec.warm else str(workspace),
    )
    return launch if sandbox is None else sandbox.plan(launch, workspace, spec.secrets)


Direction = Literal["received", "sent"]
_STOP_S = (1.0, 1.0, 2.0)  # to exit after the end of stdin, after SIGTERM, after SIGKILL


class Listener(Protocol):
    """The attempt that an agent works on."""

    @property
    def name(self) -> str:
        """Names the attempt in warnings."""
        ...

    @property
    def policy(self) -> Policy | None:
        """Decides permission requests."""
        ...

    def frame(self, direction: Direction, frame: Frame) -> None:
        """A message was sent or received."""
        ...

    def stderr_line(self, line: str) -> None:
        """The agent wrote a line to its stderr."""
        ...

    def output(self, size_bytes: int) -> None:
        """The agent sent this many bytes: messages, anything else on its stdout, and stderr."""
        ...


class RunningAgent:
    """A connected agent. `start` it, let it `serve` attempts, and `aclose` it."""

    def __init__(
        self, spec: AgentSpec, launch: Launch, listener: Listener, folder: Path | None = None
    ) -> None:
        self.spec: AgentSpec = spec
        self.launch: Launch = launch
        self.listener: Listener | None = listener
        """The current attempt."""
        self.attempts: int = 0
        """Attempts that it has served."""
        self.is_new: bool = True
        """Whether the current attempt is its first."""
        self.children: frozenset[int] = frozenset()
        """The processes below it before the first session."""
        self.access: GatewayAccess | None = None
        self.connection: ConnectedAgent | None = None
        self._folder = folder
        self._handshake: list[tuple[Direction, bytes]] | None = []
        self._shaken: tuple[tuple[Direction, bytes], ...] = ()
        self._transport: ProcessTransport | None = None
        self._stack = AsyncExitStack()

    @property
    def agent(self) -> ConnectedAgent:
        """The connection, after `start`."""
        assert self.connection is not None
        return self.connection

    @property
    def pid(self) -> int | None:
        """The number of the process, if it is on this machine."""
        return None if self._transport is None else self._transport.pid

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended: the process exited, or closed its output."""
        return self.agent.remote.connection.has_ended

    @property
    def handshake(self) -> Sequence[tuple[Direction, bytes]]:
        """The messages before the first session."""
        return self._shaken

    async def start(
        self, gateway: ModelGateway | None, in_process: Callable[[], Any] | None, timeout_s: float
    ) -> None:
        """Start the agent and connect to it; raise what `accord.connect` raises."""
        env = dict(self.launch.env)
        try:
            if gateway is not None and self.spec.provider is not None:
                self.access = await self._stack.enter_async_context(
                    gateway.open(self.spec.provider)
                )
                env |= self.access.env
            command: Any
            token = None
            if in_process is not None:
                command = await self._served(in_process())
            elif is_url(self.launch.argv[0]):
                command = self.launch.argv[0]
                token = os.environ.get(self.spec.token_variable) or None
            else:
                command = self._process(env, self.launch.cwd or self._own_folder())
            connecting = accord.connect(
                command,
                permissions=self._decide,
                observers=[self._observe],
                versions=self.spec.versions,  # type: ignore[arg-type]  # checked
                initialize_timeout_s=timeout_s,
                token=token,
            )
            with working_for(self._attempt_name):
                self.connection = await self._stack.enter_async_context(connecting)
        except BaseException:
            await self._stack.aclose()
            raise
        self._shaken = tuple(self._handshake or ())
        self._handshake = None

    def kill(self) -> None:
        """End the process and its group now; `aclose` does the rest."""
        if self._transport is not None and self._transport.pid is not None:
            self._transport.stop_times_s = (0.0, 0.0, _STOP_S[2])
            with suppress(OSError):
                os.killpg(self._transport.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Disconnect, and end the process with its group within a few seconds."""
        await self._stack.aclose()

    # The transport.

    def _own_folder(self) -> str | None:
        """Make the folder in which the process starts: no agent can remove that of another."""
        if self._folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        own = tempfile.mkdtemp(prefix="agent-", dir=self._folder)
        self._stack.push_async_callback(asyncio.to_thread, remove_tree, own)
        return own

    def _process(
        self, env: dict[str, str | None], folder: str | None
    ) -> Callable[[], ProcessTransport]:
        make = process(
            *self.launch.argv,
            cwd=folder,
            env=env,
            on_stderr=self._stderr_line,
            on_output=self._output,
            stop_times_s=_STOP_S,
            stops_descendants=True,
        )

        def started() -> ProcessTransport:
            self._transport = make()
            return self._transport

        return started

    async def _served(self, agent: Any) -> Transport:
        """Serve an agent of this process; return the client's end of its transport."""
        ours, theirs = pair()
        serving = asyncio.create_task(accord.serve(agent, theirs), name="accord fleet agent")

        async def ended() -> None:
            await theirs.aclose()
            serving.cancel()
            await asyncio.wait([serving])

        self._stack.push_async_callback(ended)
        return ours

    # What the attempt gets.

    def _attempt_name(self) -> str | None:
        """Return the current attempt: a warm agent serves several."""
        return None if self.listener is None else self.listener.name

    def _decide(self, request: PermissionRequest) -> Any:
        listener = self.listener
        return None if listener is None or listener.policy is None else listener.policy(request)

    def _observe(self, direction: Direction, frame: Frame) -> None:
        if self._handshake is not None:
            self._handshake.append((direction, bytes(frame)))
        if self.listener is not None:
            self.listener.frame(direction, frame)
            if self._transport is None and direction == "received":
                self.listener.output(len(frame))

    def _stderr_line(self, line: str) -> None:
        if self.listener is not None:
            self.listener.stderr_line(line)

    def _output(self, size_bytes: int) -> None:
        if self.listener is not None:
            self.listener.output(size_bytes)


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
        gateway: ModelGateway | None = None,
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
