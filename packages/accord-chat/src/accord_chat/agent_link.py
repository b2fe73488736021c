"""The connection to one agent, shared by its sessions; it can be made again.

`AgentLink` starts the agent of a source, or connects to it, when a session first needs it.
`Login` logs a session in, one login at a time for all sessions of the agent. `SharedClient` is
added for a session of `accord session`, which has other clients and one queue for all of them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from accord.client.agent_adapter import AuthMethod
from accord.client.connect import ConnectedAgent, connect
from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
from accord.client.events import Decision, PermissionRequest
from accord.client.handlers import Extension
from accord.client.permissions import allow, deny
from accord.errors import AccordError, AuthRequired, ConnectionClosed
from accord.text import lenient_json
from accord.transports.base import Frame
from accord.transports.registry import ConnectionChange, Reconnect
from accord_chat.model.conversation import Timeline
from accord_chat.model.questions import LoginQuestion, Question
from accord_chat.model.traffic import Traffic
from accord_chat.sources import SharedSession, Source
from accord_terminal.sessions.journal import OthersAnswers, place_of
from accord_terminal.sessions.named import CALL, QueuedPrompt, SessionStatus
from accord_terminal.toolkit.login import choose_method, login_failure
from accord_terminal.toolkit.options import limit_policies, limited_connection
from accord_terminal.toolkit.text import one_line

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

    def steered(self, by: str, text: str, outcome: str) -> None:
        """Note at a message in the conversation that another client has said it."""
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
            shared = SharedClient(self._owner)
        self.shared = shared
        setup, owner = self.source.setup, self._owner
        name, observer = self.traffic.observer()
        self.connections.add(name)
        transport = self.source.transport(self._add_output, self._add_output)
        async with connect(
            transport,
            permissions=[
                *limit_policies(setup.limits),
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
            **limited_connection(setup.limits),
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


class Visitor(Protocol):
    """The session that needs the login."""

    link: AgentLink
    timeline: Timeline

    @property
    def agent_name(self) -> str:
        """The name of the agent as the user knows it."""
        ...

    async def ask(self, question: Question) -> Any:
        """Ask the user."""
        ...

    def login_changed(self, name: str) -> None:
        """Take note which login the agent runs; none if the name is empty."""
        ...


class Login:
    """The logins of one session: what the agent has refused without one is then tried again."""

    def __init__(
        self, session: Visitor, at_terminal: Callable[[AuthMethod], Awaitable[int]]
    ) -> None:
        self._session = session
        self._at_terminal = at_terminal  # runs the agent's login command, returns its status
        self._running: asyncio.Task[None] | None = None

    async def run(self, refused: AuthRequired) -> None:
        """Ask the user for a method and log in, unless another session has just done it.

        Raises `AccordError` or `OSError` if it fails, and `refused` if the user declines.
        """
        gate = self._session.link.login_gate
        before = gate.ended
        async with gate.lock:
            if gate.ended != before:
                if not gate.has_succeeded:
                    raise refused
                return
            gate.has_succeeded = False
            try:
                await self._log_in(refused)
                gate.has_succeeded = True
            finally:
                gate.ended += 1
        self._session.timeline.remark("Logged in", "info")

    def cancel(self) -> bool:
        """Cancel the login that the agent runs; return whether there was one."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def _log_in(self, refused: AuthRequired) -> None:
        link = self._session.link
        agent = await link.agent()
        variables = link.login_variables

        async def ask(form: ElicitationForm) -> FormValues | None:
            details = {method.id: self._detail(method) for method in agent.auth_methods}
            return await self._session.ask(LoginQuestion(self._session.agent_name, form, details))

        method = await choose_method(agent.auth_methods, refused, ask)
        if method.terminal:
            status = await self._at_terminal(method)
            if status != 0:  # R-AUTH-17: a login that fails is reported
                raise AccordError(login_failure(method, status))
            await link.aclose()  # R-AUTH-18: the agent is started again
        elif missing := self._missing(variables.get(method.id, ())):
            raise AccordError(
                f"The login {one_line(method.name, 60)!r} needs {' and '.join(missing)} in the "
                "environment: set it before `accord chat` starts, or in the agent's settings"
            )
        else:
            await self._authenticate(agent, method)

    async def _authenticate(self, agent: ConnectedAgent, method: AuthMethod) -> None:
        """Let the agent log in, until it has ended or the user cancels it."""
        running = asyncio.create_task(agent.authenticate(method.id), name="accord chat login")
        self._running = running
        self._session.login_changed(method.name)
        try:
            await asyncio.wait([running])
        finally:
            self._running = None
            running.cancel()
            self._session.login_changed("")
        if running.cancelled():
            raise AccordError(f"The login {one_line(method.name, 60)!r} was cancelled")
        await running

    def _missing(self, names: Sequence[str]) -> list[str]:
        env = {**os.environ, **self._session.link.source.setup.env}
        return [name for name in names if not env.get(name)]

    def _detail(self, method: AuthMethod) -> str:
        """Return what the choice of a method does."""
        source, names = self._session.link.source, self._session.link.login_variables
        if method.terminal and source.login_command is not None:
            return f"runs here: {shlex.join([*source.login_command, *method.args])}"
        if variables := names.get(method.id):
            missing = self._missing(variables)
            return f"needs {', '.join(variables)}: {'not set' if missing else 'set'}"
        return "the agent logs in by itself"


class LoginGate:
    """One login of an agent at a time: its other sessions wait for the result."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.ended = 0
        self.has_succeeded = False


# Legacy logins of the type `env_var` name the variables that they need. The type is no longer in
# the protocol (R-AUTH-24): such a method decodes as one of the agent.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MARK = b"env_var"


def login_variables(frame: bytes | bytearray | memoryview) -> dict[str, tuple[str, ...]]:
    """Return the variables of each method of an `initialize` response; usually there are none."""
    data = bytes(frame)
    if _MARK not in data:
        return {}
    try:
        message = lenient_json.loads(data)
    except ValueError:
        return {}
    result = message.get("result") if lenient_json.is_object(message) else None
    methods = result.get("authMethods") if lenient_json.is_object(result) else None
    if not lenient_json.is_array(methods):
        return {}
    return dict(found for method in methods for found in _variables(method))


def _variables(method: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not lenient_json.is_object(method) or method.get("type") != "env_var":
        return
    given = method.get("vars")
    rows: list[Any] = list(given) if lenient_json.is_array(given) else []
    rows.append({"name": method.get("varName")})
    names = [
        row["name"]
        for row in rows
        if lenient_json.is_object(row) and _is_name(row) and row.get("optional") is not True
    ]
    if isinstance(method.get("id"), str) and names:
        yield method["id"], tuple(names)


def _is_name(row: Mapping[str, Any]) -> bool:
    name = row.get("name")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class SharedClient:
    """Knows the queue and the other clients; the owner gets what the user has to know."""

    def __init__(self, owner: Owner) -> None:
        self.name = _own_name()
        self.others: tuple[str, ...] = ()  # the names of the other clients
        self.queue: tuple[QueuedPrompt, ...] = ()  # the running prompt, then those that wait
        self._owner = owner
        self._say = owner.say
        self._changed = owner.changed
        self._answers = OthersAnswers(lambda: self.name, self._say_answer)
        self._agent: ConnectedAgent | None = None
        self._begin = 0  # the entries before are history

    @property
    def extensions(self) -> Mapping[str, Extension]:
        """What the owner of the session tells its clients."""
        return {f"{CALL}entry": self._take_entry, f"{CALL}clients": self._take_clients}

    async def begin(self, agent: ConnectedAgent) -> None:
        """Introduce this client, before it opens the session."""
        self._agent = agent
        settings = {"name": self.name, "decides": True, "entries": True}
        answer = await agent.call_extension(f"{CALL}client", settings)
        status = msgspec.convert(answer, SessionStatus)
        self._begin = place_of(status.cursor, status.session_id)
        self.queue = status.queue
        self.others = tuple(name for name in status.clients if name != self.name)
        if answer["contextLost"]:
            self._say("The agent could not restore the conversation: its context is new")
        self._changed()

    def is_own(self, prompt: QueuedPrompt) -> bool:
        """Return whether this client has submitted a prompt."""
        return prompt.by == self.name

    @property
    def running(self) -> QueuedPrompt | None:
        """The prompt whose turn it is."""
        return next((prompt for prompt in self.queue if prompt.state == "running"), None)

    @property
    def waiting(self) -> tuple[QueuedPrompt, int] | None:
        """The own prompt that waits, and how many are before it."""
        for number, prompt in enumerate(self.queue):
            if prompt.state == "queued" and self.is_own(prompt):
                return prompt, number
        return None

    async def withdraw(self, prompt_id: str) -> None:
        """Remove a prompt of any client, or cancel its turn; raise `RequestError` if it is over."""
        assert self._agent is not None, "it has begun"
        await self._agent.call_extension(f"{CALL}withdraw", {"promptId": prompt_id})

    def _take_clients(self, params: Mapping[str, Any]) -> None:
        names = [*params["clients"]]
        with suppress(ValueError):
            names.remove(self.name)
        self.others = tuple(names)
        self._changed()

    def _take_entry(self, params: Mapping[str, Any]) -> None:
        entry = params["entry"]
        if entry.get("seq", 0) <= self._begin:
            return
        prompt_id = entry.get("prompt")
        match entry.get("kind"):
            case "queued":
                added = QueuedPrompt(prompt_id, "queued", entry["by"], entry["text"])
                self.queue = (*self.queue, added)
            case "started":
                self.queue = tuple(
                    msgspec.structs.replace(one, state="running")
                    if one.prompt_id == prompt_id
                    else one
                    for one in self.queue
                )
            case "ended":
                self.queue = tuple(one for one in self.queue if one.prompt_id != prompt_id)
            case "steered":
                if entry["by"] != self.name:
                    self._owner.steered(entry["by"], entry["text"], entry["outcome"])
            case _:
                self._answers(params)
                return
        self._changed()

    def _say_answer(self, text: str) -> None:
        self._say(f"{text[:1].upper()}{text[1:]}")


def _own_name() -> str:
    """Return a name that tells the terminals of a user apart."""
    place = f"process {os.getpid()}"
    with suppress(OSError):
        place = os.ttyname(1).removeprefix("/dev/")
    return f"accord chat ({place})"
