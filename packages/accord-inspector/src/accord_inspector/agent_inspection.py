"""Runs an agent whose client is the page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.client.permissions import Policy
from accord.errors import AccordError
from accord.transports.base import Transport
from accord.transports.process import ProcessTransport
from accord.version import ProtocolVersion
from accord_inspector.faults_process import suspender
from accord_inspector.inspected_transport import InspectedTransport
from accord_inspector.json_http import ApiError
from accord_inspector.live_inspection import LiveInspection
from accord_trace.records import Direction


class AgentOutput(NamedTuple):
    """What receives the lines of an agent that are not messages."""

    on_stderr: Callable[[str], None]
    on_noise: Callable[[str], None]


# Makes the transport to the agent, for each start.
AgentStarter: TypeAlias = Callable[[AgentOutput], Awaitable[Transport]]


class ClientSide(Protocol):
    """What the page does as a client of the agent."""

    @property
    def permissions(self) -> Policy:
        """What decides permission requests."""
        ...

    def options(self) -> ConnectOptions:
        """Return the options of the next connection."""
        ...

    def connected(self, agent: ConnectedAgent) -> None:
        """Use a connection that was opened."""
        ...

    def disconnected(self) -> None:
        """Stop using the connection."""
        ...


class AgentInspection(LiveInspection):
    """Runs an agent and is its client.

    The agent can be started again, also with other versions of the protocol. `client` is what the
    page does with the connection, `agent` the connection while it is open.
    """

    kind = "agent"
    can_restart = True

    def __init__(
        self,
        start: AgentStarter,
        *,
        command: Sequence[str],
        title: str,
        output: Path | None = None,
        redact: bool = True,
    ) -> None:
        self.agent: ConnectedAgent | None = None
        self.client: ClientSide | None = None
        self.versions: tuple[ProtocolVersion, ...] = (1, 2)
        self._start = start
        self._transport: InspectedTransport | None = None
        self._restart = asyncio.Event()
        self._starts = 0
        super().__init__(command=command, title=title, output=output, redact=redact)

    def process(self) -> dict[str, Any]:
        return {
            **super().process(),
            "starts": self._starts,
            "versions": list(self.versions),
            "version": None if self.agent is None else self.agent.version,
        }

    async def start(self) -> None:
        """Start the agent, and start it again whenever this is requested."""
        self.client = self.conversations.live_client(Path.cwd(), self.command)
        self.spawn(self._run())

    def restart(self, versions: Iterable[ProtocolVersion] | None = None) -> None:
        """Stop the agent if it runs, and start it again; `versions` are those that it is offered.

        Raise `ApiError` for other versions than 1 and 2.
        """
        if versions is not None:
            chosen = tuple(sorted(set(versions)))
            if not chosen or not set(chosen) <= {1, 2}:
                raise ApiError(400, f"versions: expected 1, 2 or both, got {list(chosen)}")
            self.versions = chosen
        self._restart.set()

    def inject(self, direction: Direction, frames: Sequence[bytes]) -> int | None:
        return self._connected().inject(direction, frames)

    def inject_bytes(self, data: bytes) -> int | None:
        try:
            return self._connected().inject_bytes(data)
        except TypeError as error:
            raise ApiError(409, str(error)) from None

    def _connected(self) -> InspectedTransport:
        if self._transport is None:
            raise ApiError(409, "The agent is not running: start it again")
        return self._transport

    async def _run(self) -> None:
        while True:
            self._restart.clear()
            self._starts += 1
            self.begin()
            try:
                await self._run_once()
            except (AccordError, TimeoutError, OSError) as error:
                self.set_ended(error, "failed")
            finally:
                self.agent = self._transport = None
                self.hub.changed("capabilities")
            await self._restart.wait()

    async def _run_once(self) -> None:
        """Run the agent until it ends or is to be started again, also while it is starting."""
        connected = asyncio.create_task(self._connect(), name="accord inspected agent")
        restart = asyncio.create_task(self._restart.wait(), name="accord start again")
        try:
            await asyncio.wait((connected, restart), return_when=asyncio.FIRST_COMPLETED)
        finally:
            restart.cancel()
            connected.cancel()
            await asyncio.wait((connected, restart))
        if not connected.cancelled():
            connected.result()

    def set_ended(self, error: BaseException | None, state: str) -> None:
        super().set_ended(error, state)
        if self.problem:  # the person at the terminal may not look at the page
            sys.stderr.write(f"accord inspect: {self.problem}\n")

    async def _connect(self) -> None:
        client = self.client
        options = ConnectOptions() if client is None else client.options()
        options["versions"] = self.versions
        permissions = None if client is None else client.permissions
        async with connect(self._open, permissions=permissions, **options) as agent:
            self.agent = agent
            self.set_state("running")
            self.hub.changed("capabilities")
            if self.client is not None:
                self.client.connected(agent)
            try:
                self.set_ended(await agent.remote.connection.wait_ended(), "ended")
            finally:
                self.agent = None
                if self.client is not None:
                    self.client.disconnected()

    async def _open(self) -> Transport:
        hop = self.recording.hop()
        inner = await self._start(AgentOutput(self.add_stderr, self._add_noise))
        self._transport = InspectedTransport(
            inner,
            hop,
            self.faults,
            self.numbers,
            written=self.messages().written,
            lines=self.strange_lines,
            strange=lambda: self.hub.changed("process"),
        )
        self.faults.suspend = None
        if isinstance(inner, ProcessTransport):
            inner.spawn()
            self.pid = inner.pid
            if inner.pid is not None:
                self.faults.suspend = suspender(inner.pid)
        self.hub.changed("process")
        return self._transport

    def _add_noise(self, line: str) -> None:
        if self._transport is not None:
            self._transport.noise(line)
