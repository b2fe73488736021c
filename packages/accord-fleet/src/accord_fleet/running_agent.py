"""An agent that runs and serves attempts, one after another."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import accord
from accord import ConnectedAgent, PermissionRequest
from accord.client.permissions import Policy
from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from accord.transports.process import ProcessTransport, process
from accord.transports.registry import is_url
from accord_fleet.attempt_names import working_for
from accord_fleet.parts import Gateway, GatewayAccess, Launch
from accord_fleet.types.agent import AgentSpec
from accord_fleet.workspaces.remove import remove_tree

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
        self, gateway: Gateway | None, in_process: Callable[[], Any] | None, timeout_s: float
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
