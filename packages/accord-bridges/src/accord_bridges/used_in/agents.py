"""An ACP agent for programs that are written with a framework: one process, many sessions.

The agent is served in the thread of `turns`, so that it outlives the event loop of a caller:
programs that call `asyncio.run` or a framework's `run_sync` again and again talk to the same
sessions.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from msgspec import Struct

import accord
from accord.client.connect import AgentCommand, ConnectOptions
from accord.client.events import Event
from accord.client.permissions import Policy, chain, policies_of
from accord.errors import AccordError, AuthRequired, StartError, TransportError
from accord.transports.command_line import argv_of
from accord.types.content import ContentBlock
from accord.types.mcp import McpServer
from accord_bridges.used_in.turns import (
    AcpAgentError,
    Asked,
    Called,
    Turn,
    agents_loop,
    answer_of,
    there,
)

if TYPE_CHECKING:
    from mcp.server import Server

__all__ = (
    "AcpAgent",
    "AgentOptions",
    "CallerTool",
    "agent_of",
    "ask",
)

SERVER = "caller"  # the name of the MCP server with the caller's tools
_running: set[AcpAgent] = set()


class AgentOptions(ConnectOptions, total=False):
    """The options of an agent, in addition to those of `accord.connect`.

    `cwd` is the directory of its sessions, `mode` and `options` are set in each of them.
    `permissions` are policies; what none of them decides is rejected, or asked where the framework
    can ask.
    """

    cwd: str
    permissions: Policy | Sequence[Policy] | None
    mode: str | None
    options: Mapping[str, str | bool] | None
    mcp_servers: Sequence[McpServer]


class CallerTool(Struct, frozen=True):
    """A tool of the caller: `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class _Session:
    """An open session, and its running turn."""

    def __init__(self, opened: accord.ClientSession, tools: _Tools, is_known: bool) -> None:
        self.opened, self.id, self.tools = opened, opened.id, tools
        self.is_known = is_known  # the agent knows what was said in it before
        self.turn: Turn | None = None
        self.task: asyncio.Task[None] | None = None
        self._cost = self._cost_so_far()

    def cancel(self) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()  # leaving the block of a turn by an exception cancels it

    async def leave(self) -> None:
        """Cancel the running turn, if there is one, and wait for its end."""
        if self.task is not None and not self.task.done():
            if self.turn is not None:
                self.turn.leave()
            await asyncio.wait([self.task])

    async def run(self, turn: Turn, contents: Sequence[ContentBlock], name: str) -> None:
        """Run a turn up to its end."""
        error: AcpAgentError | None = None
        try:
            async with self.opened.prompt(*contents) as running:
                async for event in running:
                    await turn.put(event)
            turn.stop_reason, turn.usage = str(running.stop_reason), running.token_usage
            turn.limit = "" if running.limit is None else str(running.limit)
        except Exception as failure:  # noqa: BLE001  # raised where the turn is read
            turn.stop_reason, error = "error", _readable(failure, name)
        except asyncio.CancelledError:
            turn.stop_reason = "cancelled"
        finally:
            before, self._cost = self._cost, self._cost_so_far()
            if self._cost is not None:
                turn.cost = max(self._cost - (before or 0.0), 0.0)
            self.turn = None
            turn.end(error)

    def _cost_so_far(self) -> float | None:
        used = self.opened.transcript.usage
        return used.cost.amount if used and used.cost and used.cost.currency == "USD" else None


class AcpAgent:
    """An ACP agent: it is started when it is first needed, and stopped with the program.

    `command` is what `accord.connect` accepts: the command line, its words, a URL or a function
    that returns a transport. Pass one `AcpAgent` in several places to use one process for all.
    """

    def __init__(self, command: AgentCommand, **options: Unpack[AgentOptions]) -> None:
        given: dict[str, Any] = dict(options)
        self.cwd: str = given.pop("cwd", ".")
        self.policies: tuple[Policy, ...] = policies_of(given.pop("permissions", None))
        self._mode: str | None = given.pop("mode", None)
        self._options: Mapping[str, str | bool] = given.pop("options", None) or {}
        self._servers: Sequence[McpServer] = given.pop("mcp_servers", ())
        self._command, self._given = command, given
        self.name: str = _name(command)
        self.threads: dict[str, str] = {}
        """The id of the session of each thread of a framework."""
        self._sessions: dict[str, _Session] = {}
        self._connected: accord.ConnectedAgent | None = None
        self._connection: asyncio.Task[None] | None = None
        self._lock: asyncio.Lock | None = None
        self._calls = 0  # of tools of the caller, for their ids

    async def start(
        self,
        contents: Sequence[ContentBlock] | Callable[[bool], Sequence[ContentBlock]],
        *,
        session_id: str | None = None,
        tools: Sequence[CallerTool] = (),
    ) -> Turn:
        """Send a prompt to a session; without an id, or if it cannot be continued, to a new one.

        `contents` can be a function of whether the session knows what was said before.
        Raises `AcpAgentError`.
        """
        begun: list[Turn] = []
        try:
            return await there(self._start(begun, contents, session_id, tuple(tools)))
        except asyncio.CancelledError:
            # The turn can have begun since its caller was cancelled.
            agents_loop().call_soon_threadsafe(lambda: [turn.leave() for turn in begun])
            raise

    def running(self, session_id: str) -> Turn | None:
        """Return the turn of a session that has not ended, if there is one."""
        session = self._sessions.get(session_id)
        return None if session is None else session.turn

    async def open(self, session_id: str | None = None) -> str:
        """Open a session, and return its id: a new one if the given one cannot be continued."""
        return (await there(self._opened(session_id, ()))).id

    def supports_content(self, kind: str) -> bool:
        """Return whether prompts may contain `image`, `audio` or `resource`, once it runs."""
        return self._connected is not None and self._connected.supports_content(kind)

    async def aclose(self) -> None:
        """Stop the agent; a next use starts it again, and continues sessions that it has stored."""
        await there(self._stop())

    def close(self) -> None:
        """Stop the agent, from a program without an event loop."""
        asyncio.run_coroutine_threadsafe(self._stop(), agents_loop()).result(20)

    # The rest runs in the thread of the agents.

    async def _start(
        self,
        begun: list[Turn],
        contents: Any,
        session_id: str | None,
        tools: tuple[CallerTool, ...],
    ) -> Turn:
        session = await self._opened(session_id, tools)
        await session.leave()
        turn = session.turn = Turn(session.id, chain(*self.policies), session.cancel)
        given: Any = contents(session.is_known) if callable(contents) else contents
        session.is_known = True
        session.task = asyncio.create_task(session.run(turn, given, self.name))
        begun.append(turn)
        return turn

    async def _opened(self, session_id: str | None, tools: tuple[CallerTool, ...]) -> _Session:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            try:
                return await self._open(session_id, tools)
            except TransportError as error:
                if self._connected is None:
                    raise _readable(error, self.name) from error
                await self._stop()  # the process has ended since it was last used
            except AccordError as error:
                raise _readable(error, self.name) from error
            try:
                return await self._open(session_id, tools)
            except AccordError as error:
                raise _readable(error, self.name) from error

    async def _open(self, session_id: str | None, given: tuple[CallerTool, ...]) -> _Session:
        if self._connection is not None and self._connection.done():
            self._connected = None
        if self._connected is None:
            self._sessions.clear()
            ready: asyncio.Future[accord.ConnectedAgent] = asyncio.Future()
            self._connection = asyncio.create_task(self._connect(ready), name="accord agent")
            self._connected = await ready
            _running.add(self)
        agent = self._connected
        known = self._sessions.get(session_id or "")
        if known is not None and known.tools.given == given:
            return known
        if known is not None:
            await known.leave()  # it had other tools
        tools = _Tools(self, given)
        setup: dict[str, Any] = {"mcp_servers": self._servers, "tools": tools.servers}
        opened = None
        if session_id is not None:
            opened = await self._stored(agent, session_id, setup)
        is_known = opened is not None
        if opened is None:
            opened = await agent.new_session(self.cwd, **setup)
        tools.session_id = opened.id
        if self._mode is not None:
            await opened.set_mode(self._mode)
        for name, value in self._options.items():
            await opened.set_option(name, value)
        session = self._sessions[opened.id] = _Session(opened, tools, is_known)
        return session

    async def _stored(
        self, agent: accord.ConnectedAgent, session_id: str, setup: dict[str, Any]
    ) -> accord.ClientSession | None:
        """Continue a session that the agent has stored; None if it cannot.

        Some agents refuse to resume although they advertise it: then the session is loaded.
        """
        for capability in ("resume_session", "load_session"):
            if agent.supports(capability):
                replay = capability == "load_session"
                with contextlib.suppress(accord.RequestError):
                    return await agent.load_session(session_id, self.cwd, replay=replay, **setup)
        return None

    async def _connect(self, ready: asyncio.Future[accord.ConnectedAgent]) -> None:
        """Hold the connection until it ends, or this task is cancelled."""
        try:
            connect = accord.connect(self._command, permissions=self._decide, **self._given)
            async with connect as agent:
                ready.set_result(agent)
                await agent.remote.connection.wait_ended()
        except Exception as error:  # noqa: BLE001  # raised where it is awaited
            if not ready.done():
                ready.set_exception(error)

    async def _stop(self) -> None:
        connection, self._connection, self._connected = self._connection, None, None
        _running.discard(self)
        for session in list(self._sessions.values()):
            if session.turn is not None:
                session.turn.leave()
        if tasks := [s.task for s in self._sessions.values() if s.task is not None]:
            await asyncio.wait(tasks, timeout=15)
        self._sessions.clear()
        if connection is not None:
            connection.cancel()
            await asyncio.wait([connection], timeout=15)

    async def _decide(self, request: accord.PermissionRequest) -> Any:
        """Put a permission request into its turn; calls of the caller's own tools are allowed."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return "reject"  # of a subagent, or of no session
        if request.tool_call is not None and session.tools.called_by(request.tool_call):
            return "allow"
        for _ in range(3):
            await asyncio.sleep(0)  # the events before the request are read first
        if (turn := session.turn) is None:
            return "reject"
        asked = Asked(request, turn)
        await turn.put(asked)
        return await asked.decision

    def is_own_tool(self, session_id: str, call: accord.ToolCall) -> bool:
        """Return whether a tool call is the agent's view of a call of a tool of the caller."""
        session = self._sessions.get(session_id)
        return session is not None and session.tools.called_by(call)

    async def call(self, session_id: str, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Call a tool of the caller for the agent: it is answered by who reads the turn."""
        session = self._sessions.get(session_id)
        if session is None or (turn := session.turn) is None:
            return "No turn is running that could call this tool.", True
        self._calls += 1
        called = Called(f"acp_{session_id[-8:]}_{self._calls}", name, arguments)
        await turn.put(called)
        try:
            return await called.result
        finally:
            turn.waiting.pop(called.id, None)


class _Tools:
    """The tools of the caller in one session."""

    def __init__(self, agent: AcpAgent, given: tuple[CallerTool, ...]) -> None:
        self.given = given
        self.session_id = ""
        self._names = {tool.name for tool in given}
        self._agent = agent

    @property
    def servers(self) -> list[Server[Any]]:
        """The MCP server for the session, if there are tools."""
        if not self.given:
            return []
        from mcp import types
        from mcp.server import Server

        async def list_tools(*_: object) -> types.ListToolsResult:
            listed = [
                types.Tool(name=one.name, description=one.description, input_schema=one.schema)
                for one in self.given
            ]
            return types.ListToolsResult(tools=listed)

        async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            arguments = dict(params.arguments or {})
            text, failed = await self._agent.call(self.session_id, params.name, arguments)
            content = [types.TextContent(type="text", text=text)]
            return types.CallToolResult(content=cast("Any", content), is_error=failed)

        return [Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)]

    def called_by(self, call: accord.ToolCall) -> bool:
        """Return whether the agent means one of these tools: agents name them in many ways."""
        for said in filter(None, (call.name, call.title)):
            for name in self._names:
                if said == name or (name in said and SERVER in said):
                    return True
        return False


async def ask(
    agent: AcpAgent,
    thread: str,
    prompt: str,
    *,
    on_event: Callable[[Event], object] = lambda _: None,
    decide: Callable[[Asked], object] = lambda asked: asked.answer("reject"),
) -> tuple[str, Turn]:
    """Run a turn in the session of a thread; return the answer of the agent, and the turn.

    `decide` answers what the policies of the agent leave open. Cancelling this cancels the turn.
    """
    turn = await agent.start([prompt], session_id=agent.threads.get(thread))
    agent.threads[thread] = turn.session_id
    said: list[accord.Text] = []
    try:
        while items := await turn.read():
            for item in items:
                if isinstance(item, Asked):
                    if not await item.decide():
                        decide(item)
                elif not isinstance(item, Called):
                    if isinstance(item, accord.Text):
                        said.append(item)
                    on_event(item)
    except BaseException:
        turn.cancel()
        raise
    return answer_of(said, turn), turn


def agent_of(agent: AgentCommand | AcpAgent, options: AgentOptions) -> AcpAgent:
    """Return the agent of a command with its options; an `AcpAgent` has its own."""
    if not isinstance(agent, AcpAgent):
        return AcpAgent(agent, **options)
    if options:
        raise TypeError(f"{', '.join(options)}: give the options to the AcpAgent")
    return agent


def _readable(error: Exception, name: str) -> AcpAgentError:
    """Return an error of an agent for people who see only this one."""
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    match error:
        case AuthRequired():
            hint = f"run `accord agents login {name}`, or the agent's own command for it"
            text = f"The agent {name} needs a login: {hint} ({error.message})"
        case StartError():
            text = f"The agent {name} could not be started: {error}"
        case TransportError():
            text = f"The agent {name} has ended: {error}"
        case _:
            text = f"The agent {name} failed: {error}"
    failure = AcpAgentError(text + notes)
    failure.__cause__ = error
    return failure


def _name(command: Any) -> str:
    """Return a name for the agent of a command: its program."""
    if callable(command) or not isinstance(command, str | Sequence):
        return "agent"
    argv = argv_of(cast("str | Sequence[str]", command))
    words = [word for word in argv if not word.startswith("-")] or argv
    return words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


@atexit.register
def _stop_all() -> None:
    with contextlib.suppress(Exception):
        for agent in list(_running):
            agent.close()
