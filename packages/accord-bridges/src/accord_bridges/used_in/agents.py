"""An ACP agent for programs that are written with a framework: one process, many sessions.

The agent is served in a thread of its own, so that it outlives the event loop of a caller: programs
that call `asyncio.run` or a framework's `run_sync` again and again talk to the same sessions.
A turn is a queue that its caller reads. It contains what the agent needs from the caller, too: a
permission (`Asked`), and a call of a tool of the caller (`Called`). The agent waits for the answer,
so a turn can be left and continued, as long as the process lives.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, cast

from msgspec import Struct

import accord
from accord.client.connect import AgentCommand, ConnectOptions
from accord.client.events import Event
from accord.client.permissions import AsyncPolicy, Policy, chain, policies_of
from accord.errors import AccordError, AuthRequired, StartError, TransportError
from accord.transports.command_line import argv_of
from accord.types.content import ContentBlock
from accord.types.mcp import McpServer

if TYPE_CHECKING:
    from mcp.server import Server

__all__ = (
    "AcpAgent",
    "AcpAgentError",
    "AgentOptions",
    "Asked",
    "Called",
    "CallerTool",
    "Turn",
    "agent_of",
    "answer_of",
    "ask",
)

T = TypeVar("T")

SERVER = "caller"  # the name of the MCP server with the caller's tools
_QUEUED = 1000  # items of a turn that wait for the caller; then the agent is not read any more
_TOGETHER_S = 0.02  # calls of tools that arrive within this time are answered together


class AcpAgentError(RuntimeError):
    """The agent could not be started, has ended, needs a login or failed; the text says which."""


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


class Asked:
    """A permission request; the agent waits for `answer`."""

    def __init__(self, request: accord.PermissionRequest, turn: Turn) -> None:
        self.request = request
        self.is_allowed: bool | None = None
        self._turn = turn
        self.decision: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def title(self) -> str:
        """What the agent wants to do, in one line."""
        request, call = self.request, self.request.tool_call
        return (call.title if call else "") or request.title or request.command or "?"

    def answer(self, decision: str) -> None:
        """Answer with a decision of a policy; what is not allowed is in `Turn.rejected`."""
        self.is_allowed = decision.startswith("allow")
        if not self.is_allowed:
            self._turn.rejected.append(self.title)
        _answer(self.decision, decision)

    async def decide(self) -> bool:
        """Answer by the policies of the agent; return whether one of them has decided."""
        decision = await self._turn.policy(self.request)
        if decision is None:
            return False
        if isinstance(decision, accord.PermissionOption):
            allows, always = decision.allows, decision.is_remembered
            decision = ("allow" if allows else "reject") + ("_always" if always else "")
        self.answer(decision)
        return True


class Called:
    """A call of a tool of the caller; the agent waits for `answer`."""

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.id, self.name, self.arguments = call_id, name, arguments
        self.result: asyncio.Future[tuple[str, bool]]
        self.result = asyncio.get_running_loop().create_future()

    def answer(self, text: str, *, is_error: bool = False) -> None:
        """Return the result to the agent."""
        _answer(self.result, (text, is_error))


Item: TypeAlias = Event | Asked | Called


class Turn:
    """A prompt that the agent works on; its caller reads `items` up to the end."""

    def __init__(self, session: _Session, policy: AsyncPolicy) -> None:
        self.session_id: str = session.id
        self.policy = policy
        self.is_ended = False
        self.stop_reason: str = ""
        self.usage: accord.TokenUsage | None = None
        self.cost: float | None = None  # of this turn, in dollars
        self.rejected: list[str] = []  # titles of what was not allowed
        self.limit: str = ""  # the limit of the budget that it has reached
        self.error: AcpAgentError | None = None
        self.waiting: dict[str, Called] = {}  # calls that the agent waits for, by their ids
        self.context: dict[str, Any] = {}  # what the caller keeps with the turn
        self._session = session
        self._items: list[Item] = []
        self._is_left = False
        self._changed = asyncio.Event()  # of the items
        self._room = asyncio.Event()

    async def read(self) -> Sequence[Item]:
        """Wait for items and return them, none after the end. Raises `AcpAgentError`."""
        items = await _there(self._read())
        if not items and self.error is not None:
            raise self.error
        return items

    def cancel(self) -> None:
        """Cancel the turn, from any thread; a next turn of the session waits for its end."""
        _loop().call_soon_threadsafe(self.leave)

    # The rest runs in the thread of the agents.

    async def _read(self) -> Sequence[Item]:
        while not self._items and not self.is_ended:
            self._changed.clear()
            await self._changed.wait()
        if any(isinstance(item, Called) for item in self._items) and not self.is_ended:
            await asyncio.sleep(_TOGETHER_S)
        items, self._items = self._items, []
        self._room.set()
        return items

    async def put(self, item: Item) -> None:
        """Add an item; wait while the caller does not read."""
        while len(self._items) >= _QUEUED and not self._is_left:
            self._room.clear()
            await self._room.wait()
        if isinstance(item, Called):
            self.waiting[item.id] = item
        if not self._is_left:
            self._items.append(item)
            self._changed.set()
        elif isinstance(item, Asked):
            item.decision.set_result("cancel")
        elif isinstance(item, Called):
            item.result.set_result(("The caller has cancelled the turn.", True))

    def leave(self) -> None:
        """Drop what follows, answer what the agent waits for, and cancel the prompt."""
        if self.is_ended or self._is_left:
            return
        self._is_left = True
        self._room.set()
        for item in [*self._items, *self.waiting.values()]:
            future = getattr(item, "decision", None) or getattr(item, "result", None)
            if future is not None and not future.done():
                cancelled: Any = ("The caller has cancelled the turn.", True)
                future.set_result("cancel" if isinstance(item, Asked) else cancelled)
        self._session.cancel()

    def end(self, error: AcpAgentError | None) -> None:
        """Set the end: nothing more is added."""
        self.error, self.is_ended = error, True
        self._changed.set()


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

    async def run(self, turn: Turn, contents: Sequence[ContentBlock], name: str) -> None:
        """Run a turn up to its end."""
        error: AcpAgentError | None = None
        try:
            async with self.opened.prompt(*contents) as running:
                async for event in running:
                    await turn.put(event)
            turn.stop_reason, turn.usage = str(running.stop_reason), running.token_usage
            turn.limit = "" if running.limit is None else str(running.limit)
        except AccordError as failure:
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
        return await _there(self._start(contents, session_id, tuple(tools)))

    def running(self, session_id: str) -> Turn | None:
        """Return the turn of a session that has not ended, if there is one."""
        session = self._sessions.get(session_id)
        return None if session is None else session.turn

    async def open(self, session_id: str | None = None) -> str:
        """Open a session, and return its id: a new one if the given one cannot be continued."""
        return (await _there(self._opened(session_id, ()))).id

    def supports_content(self, kind: str) -> bool:
        """Return whether prompts may contain `image`, `audio` or `resource`, once it runs."""
        return self._connected is not None and self._connected.supports_content(kind)

    async def aclose(self) -> None:
        """Stop the agent; a next use starts it again, and continues sessions that it has stored."""
        await _there(self._stop())

    def close(self) -> None:
        """Stop the agent, from a program without an event loop."""
        asyncio.run_coroutine_threadsafe(self._stop(), _loop()).result(20)

    # The rest runs in the thread of the agents.

    async def _start(
        self, contents: Any, session_id: str | None, tools: tuple[CallerTool, ...]
    ) -> Turn:
        session = await self._opened(session_id, tools)
        if session.task is not None and not session.task.done():
            if session.turn is not None:
                session.turn.leave()
            await asyncio.wait([session.task])
        turn = session.turn = Turn(session, chain(*self.policies))
        given: Any = contents(session.is_known) if callable(contents) else contents
        session.is_known = True
        session.task = asyncio.create_task(session.run(turn, given, self.name))
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
        tools = _Tools(self, given)
        setup: dict[str, Any] = {"mcp_servers": self._servers, "tools": tools.servers}
        opened = None
        loads = agent.supports("load_session")
        ways = [agent.supports("resume_session"), loads]  # some agents cannot what they advertise
        for resumes in (way for way, has in zip((True, False), ways, strict=True) if has):
            if session_id is None or opened is not None:
                break
            with contextlib.suppress(accord.RequestError):  # the agent has not stored it
                opened = await agent.load_session(session_id, self.cwd, replay=not resumes, **setup)
        is_known = opened is not None
        if opened is None:
            opened = await agent.new_session(self.cwd, **setup)
        tools.session_id = opened.id
        session = self._sessions[opened.id] = _Session(opened, tools, is_known)
        if self._mode is not None:
            await opened.set_mode(self._mode)
        for name, value in self._options.items():
            await opened.set_option(name, value)
        return session

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
        self._calls = getattr(self, "_calls", 0) + 1
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


def answer_of(said: Sequence[accord.Text], turn: Turn) -> str:
    """Return what the agent has said as one text, with what was not allowed and why it stopped."""
    text = ""
    last: str | None = None
    for part in said:
        text += ("\n\n" if text and part.message_id != last else "") + part.text
        last = part.message_id
    notes: list[str] = []
    if turn.rejected:
        notes.append(f"[Not allowed: {'; '.join(turn.rejected)}]")
    if turn.stop_reason not in ("end_turn", ""):
        notes.append(f"[The agent stopped: {turn.limit or turn.stop_reason}]")
    return "\n\n".join(filter(None, (text, *notes)))


def agent_of(agent: AgentCommand | AcpAgent, options: AgentOptions) -> AcpAgent:
    """Return the agent of a command with its options; an `AcpAgent` has its own."""
    if not isinstance(agent, AcpAgent):
        return AcpAgent(agent, **options)
    if options:
        raise TypeError(f"{', '.join(options)}: give the options to the AcpAgent")
    return agent


def _readable(error: AccordError, name: str) -> AcpAgentError:
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


# The thread of the agents.

_running: set[AcpAgent] = set()
_thread: list[asyncio.AbstractEventLoop] = []
_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        if not _thread:
            _thread.append(asyncio.new_event_loop())
            run = _thread[0].run_forever
            threading.Thread(target=run, name="accord agents", daemon=True).start()
            atexit.register(_stop_all)
        return _thread[0]


async def _there(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the thread of the agents."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


def _answer(future: asyncio.Future[Any], value: object) -> None:
    def answer() -> None:
        if not future.done():
            future.set_result(value)

    _loop().call_soon_threadsafe(answer)


def _stop_all() -> None:
    with contextlib.suppress(Exception):
        for agent in list(_running):
            agent.close()
