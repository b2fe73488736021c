"""Runs an agent whose client is the page."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.errors import AccordError, ConnectionLost
from accord.trace.recording import Recording
from accord.trace.records import Direction
from accord.transports.base import Transport
from accord.transports.process import ProcessTransport
from accord.version import ProtocolVersion
from accord_inspector.errors import ApiError
from accord_inspector.inspected_transport import InspectedTransport, Passages
from accord_inspector.inspection import Inspection

__all__ = ("AgentInspection", "AgentOutput", "AgentStarter", "ClientSide")

_STDERR_LINES = 2000  # that are kept
_LINE_CHARACTERS = 4000


class AgentOutput(NamedTuple):
    """What receives the lines of an agent that are not messages."""

    on_stderr: Callable[[str], None]
    on_noise: Callable[[str], None]


# Makes the transport to the agent, for each start.
AgentStarter: TypeAlias = Callable[[AgentOutput], Awaitable[Transport]]


class ClientSide(Protocol):
    """What the page does as a client of the agent."""

    def options(self) -> ConnectOptions:
        """Return the options of the next connection."""
        ...

    def connected(self, agent: ConnectedAgent) -> None:
        """Use a connection that was opened."""
        ...

    def disconnected(self) -> None:
        """Stop using the connection."""
        ...


class AgentInspection(Inspection):
    """Runs an agent and is its client; both are recorded.

    `state` is `starting`, `running`, `ended` or `failed`; `problem` says why it is one of the last
    two. `passages` change what passes in each direction; `inject` sends by hand. The agent can be
    started again, also with other versions of the protocol.
    """

    kind = "agent"

    def __init__(
        self, start: AgentStarter, recording: Recording, *, command: list[str], title: str
    ) -> None:
        self.state: str = "starting"
        self.problem: str = ""
        self.agent: ConnectedAgent | None = None
        self.client: ClientSide | None = None
        self.passages: Passages = {}
        self.versions: tuple[ProtocolVersion, ...] = (1, 2)
        self.stderr: deque[dict[str, Any]] = deque(maxlen=_STDERR_LINES)
        self.pid: int | None = None
        self.command: list[str] = command
        self._start = start
        self._recording = recording
        self._title = title
        self._transport: InspectedTransport | None = None
        self._restart = asyncio.Event()
        self._started_at = 0.0
        self._exit_status: int | None = None
        self._starts = 0
        super().__init__()
        self.hub.provide("process", self.process)
        self.hub.provide("stderr", lambda: list(self.stderr))

    @property
    def title(self) -> str:
        return self._title

    @property
    def is_live(self) -> bool:
        return True

    def path_of(self, recording: str) -> Path:
        if recording not in ("", self._recording.path.name):
            raise ApiError(404, f"Unknown recording {recording!r}")
        return self._recording.path

    def process(self) -> dict[str, Any]:
        """Return the state of the agent, for the page."""
        return {
            "state": self.state,
            "problem": self.problem,
            "pid": self.pid,
            "exitStatus": self._exit_status,
            "startedAt": self._started_at,
            "starts": self._starts,
            "versions": list(self.versions),
            "version": None if self.agent is None else self.agent.version,
        }

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "command": self.command, "file": str(self._recording.path)}

    async def start(self) -> None:
        """Start the agent, and start it again whenever this is requested."""
        self.messages()
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

    def inject(self, direction: Direction, frame: bytes) -> None:
        """Send bytes by hand; raise `ApiError` if the agent is not connected."""
        if self._transport is None:
            raise ApiError(409, "The agent is not running: start it again")
        self._transport.inject(direction, frame)

    async def _run(self) -> None:
        while True:
            self._restart.clear()
            self._set("starting")
            self._starts += 1
            self._started_at = time.time()
            self._exit_status = None
            try:
                await self._connect()
            except (AccordError, TimeoutError, OSError) as error:
                self._failed(error)
            finally:
                self.agent = self._transport = None
            if not self._restart.is_set():
                await self._restart.wait()

    async def _connect(self) -> None:
        options = ConnectOptions() if self.client is None else self.client.options()
        options["versions"] = self.versions
        async with connect(self._open, **options) as agent:
            self.agent = agent
            self._set("running")
            self.hub.changed("capabilities")
            if self.client is not None:
                self.client.connected(agent)
            try:
                await self._until_ended(agent)
            finally:
                self.agent = None
                if self.client is not None:
                    self.client.disconnected()

    async def _until_ended(self, agent: ConnectedAgent) -> None:
        """Wait until the agent disconnects, or is to be started again."""
        ended = asyncio.ensure_future(agent.remote.connection.wait_ended())
        restart = asyncio.ensure_future(self._restart.wait())
        try:
            await asyncio.wait((ended, restart), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                self._failed(ended.result(), state="ended")
        finally:
            for waiting in (ended, restart):
                waiting.cancel()
            await asyncio.wait((ended, restart))

    async def _open(self) -> Transport:
        hop = self._recording.hop()
        inner = await self._start(AgentOutput(self._add_stderr, self._add_noise))
        self._transport = InspectedTransport(
            inner, hop, self.passages, written=self.messages().written
        )
        if isinstance(inner, ProcessTransport):
            inner.spawn()
            self.pid = inner.pid
        self.hub.changed("process")
        return self._transport

    def _failed(self, error: BaseException | None, state: str = "failed") -> None:
        if isinstance(error, ConnectionLost):
            self._exit_status = error.exit_status
        self._set(state, "" if error is None else str(error) or type(error).__name__)

    def _set(self, state: str, problem: str = "") -> None:
        self.state, self.problem = state, problem
        if state != "running":
            self.hub.changed("capabilities")
        self.hub.changed("process")

    def _add_stderr(self, line: str) -> None:
        item = {"at": round(self._recording.now(), 3), "text": line[:_LINE_CHARACTERS]}
        self.stderr.append(item)
        self.hub.push("stderr", item)

    def _add_noise(self, line: str) -> None:
        if self._transport is not None:
            self._transport.noise(line)
