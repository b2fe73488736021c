"""The connection to one agent, shared by its sessions; it can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from accord.client.connect import ConnectedAgent, connect
from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
from accord.client.permissions import allow, deny
from accord.errors import AccordError, ConnectionClosed
from accord.transports.registry import ConnectionChange, Reconnect
from accord_chat.login_gate import LoginGate
from accord_chat.model.login_variables import login_variables
from accord_chat.model.traffic import Traffic
from accord_chat.shared_client import SharedClient
from accord_chat.source import SharedSession

if TYPE_CHECKING:
    from accord.client.events import Decision, PermissionRequest
    from accord.transports.base import Frame
    from accord_chat.source import Source


INITIALIZE_S = 120.0  # the agent may have to be downloaded before it starts
RECEIVED_S = 0.5  # after a message
MAX_OUTPUT_LINES = 200  # of stderr and of noise, the last ones
MAX_LINE_CHARACTERS = 2000

LinkState: TypeAlias = Literal["off", "starting", "connected", "reconnecting", "lost"]


class Owner(Protocol):
    """Answers the questions of the agent."""

    async def decide(self, request: PermissionRequest) -> Decision | None:
        """Decide a permission request."""
        ...

    async def fill_in(self, form: ElicitationForm) -> FormValues | None:
        """Fill in a form."""
        ...

    def say(self, text: str) -> None:
        """Say something in the conversation."""
        ...

    def changed(self) -> None:
        """Draw again: the queue or the clients of a session have changed."""
        ...

    async def open_page(self, page: UrlElicitationRequest) -> bool:
        """Open a URL."""
        ...


class AgentLink:
    """Connects to the agent of a source when it is first needed, and again after a loss."""

    def __init__(
        self,
        source: Source,
        find_source: Callable[[], Source],
        owner: Owner,
        group: asyncio.TaskGroup,
        traffic: Traffic,
        *,
        on_change: Callable[[AgentLink], None],
        on_received: Callable[[AgentLink], None],
    ) -> None:
        self.source = source
        self.state: LinkState = "off"
        self.output: list[str] = []  # lines of stderr, and lines on stdout that are not JSON
        self.output_lines = 0  # all of them
        self.shared: SharedClient | None = None  # while connected to a session that stays open
        self.traffic = traffic
        self.connections: set[str] = set()  # their names in the traffic
        self.error: BaseException | None = None  # why the connection ended
        self._find_source = find_source
        self._owner = owner
        self._group = group
        self._on_change = on_change
        self.login_gate = LoginGate()
        self.login_variables: dict[str, tuple[str, ...]] = {}  # by method, of legacy logins
        self._on_received = on_received
        self._is_call_due = False
        self._agent: asyncio.Future[ConnectedAgent] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._given_up = asyncio.Event()

    async def agent(self) -> ConnectedAgent:
        """Return the connected agent; start it if necessary. Raises why it cannot be reached."""
        if self._task is not None and self._is_ending:
            await asyncio.wait([self._task])
        if self._agent is None or (self._task is not None and self._task.done()):
            self._stop, self._given_up = asyncio.Event(), asyncio.Event()
            self._agent = asyncio.get_running_loop().create_future()
            self._task = self._group.create_task(self._run(self._agent), name="accord chat agent")
        return await asyncio.shield(self._agent)

    @property
    def _is_ending(self) -> bool:
        """Whether the connection has ended, but not what runs it."""
        if self.source.is_remote or self._agent is None or not self._agent.done():
            return False
        is_made = not self._agent.cancelled() and self._agent.exception() is None
        return is_made and self._agent.result().remote.connection.has_ended

    @property
    def is_usable(self) -> bool:
        """Whether a connection exists or is being made."""
        return self._task is not None and not self._task.done() and self.state != "lost"

    async def aclose(self) -> None:
        """End the connection and stop the agent's process."""
        self._stop.set()
        if self._task is not None:
            if self._agent is not None and not self._agent.done():
                self._task.cancel()  # the agent may never respond to `initialize`
            await asyncio.wait([self._task])

    async def _run(self, ready: asyncio.Future[ConnectedAgent]) -> None:
        self.error = None
        self._change("starting")
        try:
            await self._connected(ready)
            self._change("off" if self._stop.is_set() else "lost")
        except (AccordError, OSError, TimeoutError, ValueError) as error:
            self.error = error
            if not ready.done():
                ready.set_exception(error)
                ready.exception()  # it is also reported by the state
            self._change("lost")
        finally:
            if not ready.done():
                self._change("off")
                ready.set_exception(ConnectionClosed("The start of the agent was cancelled"))
                ready.exception()  # perhaps nothing waits for it

    async def _connected(self, ready: asyncio.Future[ConnectedAgent]) -> None:
        self.source = self._find_source()  # it may have been updated since
        shared: SharedClient | None = None
        if isinstance(self.source, SharedSession):
            await self.source.reach()
            shared = SharedClient(self._owner.say, self._owner.changed)
        self.shared = shared
        setup, owner = self.source.setup, self._owner
        name, observer = self.traffic.observer()
        self.connections.add(name)
        transport = self.source.transport(self._add_output, self._add_output)
        async with connect(
            transport,
            permissions=[
                deny(*setup.deny_rules),
                allow(*setup.allow_rules),
                owner.decide,
            ],
            on_elicit_form=owner.fill_in,
            on_elicit_url=owner.open_page,
            terminals=setup.terminals,
            terminal_login=self.source.login_command is not None,
            extensions=None if shared is None else shared.extensions,
            unstable=True,
            versions=(1, 2) if setup.protocol is None else (setup.protocol,),
            initialize_timeout_s=INITIALIZE_S,
            reconnect=Reconnect(on_change=self._reconnecting) if self.source.is_remote else False,
            observers=(observer, self._see),
        ) as agent:
            if shared is not None:
                await shared.begin(agent)
            ready.set_result(agent)
            self._change("connected")
            await self._until_end(agent)

    async def _until_end(self, agent: ConnectedAgent) -> None:
        stopping = asyncio.ensure_future(self._stop.wait())
        ending = asyncio.ensure_future(self._wait_lost(agent))
        try:
            await asyncio.wait([stopping, ending], return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                self.error = ending.result() or ConnectionClosed("The agent has exited")
        finally:
            stopping.cancel()
            ending.cancel()

    async def _wait_lost(self, agent: ConnectedAgent) -> BaseException | None:
        if self.source.is_remote:  # `reconnect` reports the end
            await self._given_up.wait()
            return self.error
        return await agent.remote.connection.wait_ended()

    def _reconnecting(self, change: ConnectionChange) -> None:
        self.error = change.error
        self._change(change.state)
        if change.state == "lost":
            self._given_up.set()

    def _change(self, state: LinkState) -> None:
        self.state = state
        self._on_change(self)

    def _see(self, direction: Literal["received", "sent"], frame: Frame) -> None:
        """Tell soon that messages were received, once for many of them."""
        if direction != "received":
            return
        self.login_variables.update(login_variables(frame))
        if not self._is_call_due:
            self._is_call_due = True
            asyncio.get_running_loop().call_later(RECEIVED_S, self._received)

    def _received(self) -> None:
        self._is_call_due = False
        self._on_received(self)

    def unopened_sessions(self) -> frozenset[str]:
        """Return the sessions that the agent reports on although they are not open here."""
        ready = self._agent
        if ready is None or not ready.done() or ready.cancelled() or ready.exception() is not None:
            return frozenset()
        return ready.result().unopened_sessions

    def _add_output(self, line: str) -> None:
        if line.strip():
            self.output_lines += 1
            self.output = [*self.output[1 - MAX_OUTPUT_LINES :], line[:MAX_LINE_CHARACTERS]]
