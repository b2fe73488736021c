"""An MCP server whose tools ask agents: `/mcp` of a gateway, or stdin and stdout.

A call of `ask` waits for the turn of the agent. What the person at the client decides is asked by
elicitation; a turn that is longer than its caller wants to wait goes on, and `wait` returns to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
from mcp import types
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from accord.client.elicitation import form_error
from accord.errors import AccordError
from accord.remote.access import Event, HttpLimits, Principal, Receive, Scope, Send
from accord.text.excerpt import one_line
from accord_bridges.gateways.app import Mount
from accord_bridges.gateways.mcp_forms import (
    LISTED,
    TOOLS,
    Answer,
    Ask,
    Cancel,
    Context,
    Result,
    Sessions,
    Wait,
    can_elicit,
    can_visit,
    failed,
    form_schema,
    input_schema,
    read,
    text_content,
)
from accord_bridges.gateways.mcp_turns import Turn, follow
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerForm,
    Conversation,
    GatewayError,
    GatewaySettings,
)
from accord_terminal.toolkit.agent_names import NamedAgent

log: logging.Logger = logging.getLogger("accord.gateway")

_KEPT = 256  # turns that have ended, for `wait`
_JOURNAL = 64 << 20  # bytes of a session whose transcript is made
_PATH = "accord://sessions/"
_CLOSE_S = 2.0
_LOCAL = Principal("local", all_sessions=True)
_CALL = "accord.mcp_call"  # of a scope: whether its caller has left


class McpGateway:
    """Serves the agents of a gateway by MCP.

    At most `most` sessions of the transport are open, which end when they were not used for
    `idle_s` seconds. Those of the agents stay.
    """

    def __init__(self, sessions: AgentSessions, *, most: int = 256, idle_s: float = 1800.0) -> None:
        from accord import __version__

        self._sessions = sessions
        self._turns: dict[str, Turn] = {}
        self._posts: set[asyncio.Future[None]] = set()
        self._stop = asyncio.Event()
        self._managing: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._database = sessions.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS mcp_commands (agent TEXT PRIMARY KEY, commands BLOB)"
        )
        self._server: Server[Any] = Server(
            "accord",
            version=__version__,
            instructions="Tools that let other agents work: "
            f"{', '.join(sessions.agents)}. Begin with `ask`; continue with its session.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        # The gateway has checked host, origin, token and size.
        self._manager = StreamableHTTPSessionManager(
            self._server,
            max_sessions=most,
            session_idle_timeout=idle_s,
            max_request_body_size=HttpLimits().body_bytes,
        )
        for name in ("streamable_http", "streamable_http_manager"):
            # They log the ids of sessions.
            logging.getLogger(f"mcp.server.{name}").setLevel(logging.WARNING)

    def mount(self) -> Mount:
        """Return the path."""

        def error_body(error: GatewayError) -> Any:
            found = {"code": types.INVALID_REQUEST, "message": str(error)}
            return {"jsonrpc": "2.0", "id": None, "error": found}

        return Mount(error_body, "/mcp", self, self.aclose)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._managing is None:
            self._managing = asyncio.create_task(self._manage(), name="accord gateway mcp")
        await self._ready.wait()  # the first requests may come at once
        principal: Principal = scope["accord.principal"]
        token = AccessToken(token="", client_id=principal.name, scopes=[])
        left = asyncio.Event()

        async def watched() -> Event:
            event = await receive()
            if event["type"] == "http.disconnect":
                left.set()
            return event

        of_caller = {**scope, "user": AuthenticatedUser(token), _CALL: left}
        post: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if scope["method"] == "POST":
            self._posts.add(post)
        try:
            await self._manager.handle_request(of_caller, watched, send)
        finally:
            left.set()
            post.set_result(None)
            self._posts.discard(post)

    async def _manage(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._stop.wait()

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until it leaves."""
        async with stdio_server() as (read, write):
            await self._server.run(read, write, self._server.create_initialization_options())

    async def aclose(self) -> None:
        """Cancel the turns, let the calls return, and end the sessions of the transport."""
        turns = [*self._turns.values()]
        self._turns.clear()
        await asyncio.gather(*(turn.aclose() for turn in turns))
        if self._posts:
            await asyncio.wait(self._posts, timeout=_CLOSE_S)
        self._stop.set()
        if self._managing is not None:
            await asyncio.wait([self._managing])

    # Tools.

    async def _list_tools(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        agents = [*self._sessions.agents]
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=" ".join((arguments.__doc__ or "").split()),
                    input_schema=input_schema(arguments, agents),
                    output_schema=dict(schema),
                    annotations=types.ToolAnnotations(
                        read_only_hint=reads,
                        destructive_hint=name == "ask",
                        open_world_hint=name == "ask",
                    ),
                )
                for name, (arguments, schema, reads) in TOOLS.items()
            ]
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Result:
        if params.name not in TOOLS:
            raise MCPError(
                types.INVALID_PARAMS,
                f"Unknown tool {params.name[:100]!r}: expected one of {', '.join(TOOLS)}",
            )
        try:
            if params.request_state is not None:
                return await self._returned(context, params)
            match read(params.arguments, TOOLS[params.name][0]):
                case Ask() as ask:
                    return await self._ask(context, ask)
                case Answer() as answer:
                    return await self._answer(context, answer)
                case Wait() as wait:
                    turn = self._turn_of(context, wait.session)
                    return await follow(
                        context, turn, wait.seconds, _left(context), only_waits=True
                    )
                case Cancel() as cancel:
                    return await self._cancel(context, cancel.session)
                case Sessions() as wanted:
                    return self._list_sessions(context, wanted.limit or 20)
                case _:
                    raise AssertionError(params.name)
        except AccordError as error:
            return failed(str(error))
        except MCPError:
            raise
        except Exception as error:
            log.exception("! a tool failed")
            return failed(f"Internal error: {type(error).__name__}")

    async def _ask(self, context: Context, ask: Ask) -> Result:
        conversation = await self._conversation(context, ask)
        for one in self._turns_of(conversation.id):
            if one.is_left:  # the caller does not answer: it goes on
                one.exchange.cancel()
        exchange = conversation.start(
            [ask.prompt], asks=can_elicit(context), fills=True, visits=can_visit(context)
        )
        agent = self._name_of(conversation)
        turn = Turn(exchange, agent, lambda commands: self._learn(agent, commands))
        ended = [one for one in self._turns.values() if one.has_ended]
        for old in ended[: max(0, len(ended) - _KEPT)]:
            del self._turns[old.id]
        self._turns[turn.id] = turn
        return await follow(context, turn, ask.seconds, _left(context))

    async def _conversation(self, context: Context, ask: Ask) -> Conversation:
        agents = self._sessions.agents
        known = ", ".join(agents)
        if ask.agent is not None and ask.agent not in agents:
            raise GatewayError(f"agent: expected one of {known}, got {ask.agent[:100]!r}")
        if ask.session is not None:
            found = self._sessions.find(ask.session, _principal(context))
            agent = self._name_of(found)
            if ask.agent not in (None, agent):
                raise GatewayError(f"agent: the session {ask.session} is of {agent}")
            if ask.directory is not None or ask.model is not None:
                raise GatewayError("directory and model are chosen when a session begins")
            return found
        if ask.agent is None and len(agents) > 1:
            raise GatewayError(f"agent: expected one of {known}, or a session to continue")
        agent = ask.agent or next(iter(agents))
        return await self._sessions.new(
            agent, _principal(context), model=ask.model, cwd=ask.directory
        )

    async def _answer(self, context: Context, answer: Answer) -> Result:
        turn = self._turn_of(context, answer.session)
        forms = [one for one in turn.questions if isinstance(one, CallerForm)]
        found = [one for one in forms if answer.question in (None, one.id)]
        if len(found) != 1:
            open_now = ", ".join(one.id for one in forms) or "none"
            raise GatewayError(
                f"question: expected the id of an open question of the session {answer.session};"
                f" open are: {open_now}"
            )
        form = found[0].form
        wrong = None if answer.values is None else form_error(form, answer.values)
        if wrong is not None:
            raise GatewayError(f"values: {wrong}; expected {form_schema(form)}")
        turn.exchange.answer(found[0].id, answer.values)
        return await follow(context, turn, answer.seconds, _left(context))

    async def _cancel(self, context: Context, session: str) -> types.CallToolResult:
        turn = self._turn_of(context, session)
        for one in self._turns_of(session):
            one.exchange.cancel()
        await turn.wait_ended()
        return turn.result()

    def _list_sessions(self, context: Context, limit: int) -> types.CallToolResult:
        found: list[dict[str, Any]] = []
        for record in self._sessions.made_for(_principal(context), limit):
            running = [one for one in self._turns_of(record.id) if not one.has_ended]
            waits = any(one.questions for one in running)
            found.append(
                {
                    "session": record.id,
                    "agent": record.agent,
                    "directory": record.cwd,
                    "title": record.title,
                    "used_at": record.used_at,
                    "state": "waits" if waits else "working" if running else "idle",
                }
            )
        lines = [
            f"{one['session']} {one['agent']} {one['state']} {one['title'] or ''}" for one in found
        ]
        return types.CallToolResult(
            content=[text_content("\n".join(map(str.rstrip, lines)) or "There are no sessions.")],
            structured_content={"sessions": found},
        )

    # Turns.

    def _turns_of(self, session: str) -> list[Turn]:
        return [one for one in self._turns.values() if one.session == session]

    def _turn_of(self, context: Context, session: str) -> Turn:
        """Return the turn of a session that runs, else the last one. Raises `GatewayError`."""
        self._sessions.find(session, _principal(context))
        turns = self._turns_of(session)
        running = [one for one in turns if not one.has_ended]
        if not turns:
            raise GatewayError(f"The session {session} has no turn here: begin one with `ask`")
        return running[0] if running else turns[-1]

    async def _returned(self, context: Context, params: types.CallToolRequestParams) -> Result:
        """Continue a call with what the person has answered."""
        turn = self._turns.get(params.request_state or "")
        if turn is None:
            raise GatewayError("The turn of this call has ended: call `ask` with its session")
        self._sessions.find(turn.session, _principal(context))
        responses = params.input_responses or {}
        for question in turn.questions:
            if question.id in responses:
                turn.answered(question, responses[question.id])
        seconds = cast("Mapping[str, Any]", params.arguments or {}).get("seconds")
        only_waits = params.name == "wait"
        return await follow(context, turn, seconds, _left(context), only_waits=only_waits)

    # Transcripts.

    async def _list_resources(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        records = self._sessions.made_for(_principal(context), LISTED)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=_PATH + record.id,
                    name=record.id,
                    title=one_line(record.title or f"Session with {record.agent}", 100),
                    description=f"Transcript of a session with {record.agent} in {record.cwd}",
                    mime_type="text/markdown",
                )
                for record in records
            ]
        )

    async def _list_templates(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{_PATH}{{session}}",
            name="transcript",
            description="The transcript of a session",
            mime_type="text/markdown",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = params.uri
        try:
            if not uri.startswith(_PATH):
                raise GatewayError(f"uri: expected {_PATH}SESSION, got {uri[:100]!r}")
            record = self._sessions.find(uri.removeprefix(_PATH), _principal(context)).record
            text = await asyncio.to_thread(self._transcript, record.id)
        except AccordError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri[:200]}) from None
        found = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[found])

    def _transcript(self, session: str) -> str:
        from accord_terminal.sessions.cli.transfer import exported
        from accord_terminal.sessions.journal import JournalReader

        store = self._sessions.store
        path = store.journal_path(session)
        if path.exists() and path.stat().st_size > _JOURNAL:
            raise GatewayError(f"The transcript is too long: `accord session export -s {session}`")
        entries = [*JournalReader(path).new_entries()]
        return exported(store.read(session), entries, "markdown").decode()

    # Slash commands.

    def _learn(self, agent: str, commands: Any) -> None:
        """Keep the commands of an agent, which it tells when a session opens."""
        if commands:
            rows = [(one.name, one.description, one.hint) for one in commands]
            with suppress(sqlite3.ProgrammingError):  # closed: the gateway ends
                self._database.execute(
                    "INSERT OR REPLACE INTO mcp_commands VALUES (?, ?)",
                    (agent, msgspec.json.encode(rows)),
                )

    def _commands(self) -> dict[str, tuple[str, str, str, str | None]]:
        """Return the agent, the name, the description and the hint of each prompt by its name."""
        rows = self._database.execute("SELECT agent, commands FROM mcp_commands")
        return {
            f"{agent}.{name}": (agent, name, description, hint)
            for agent, commands in rows
            if agent in self._sessions.agents
            for name, description, hint in msgspec.json.decode(commands)
        }

    async def _list_prompts(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt,
                    description=f"{agent}: {description}",
                    arguments=None
                    if hint is None
                    else [types.PromptArgument(name="input", description=hint, required=False)],
                )
                for prompt, (agent, _, description, hint) in self._commands().items()
            ]
        )

    async def _get_prompt(
        self, _context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        known = self._commands()
        if params.name not in known:
            raise MCPError(
                types.INVALID_PARAMS,
                f"Unknown prompt {params.name[:100]!r}: known are {', '.join(known) or 'none yet'}",
            )
        agent, name, description, _ = known[params.name]
        line = f"/{name} {(params.arguments or {}).get('input', '')}".rstrip()
        call = msgspec.json.encode({"agent": agent, "prompt": line}).decode()
        text = f"Call the tool `ask` with {call}, and tell me what the agent has answered."
        message = types.PromptMessage(role="user", content=text_content(text))
        return types.GetPromptResult(description=description, messages=[message])

    def _name_of(self, conversation: Conversation) -> str:
        argv = conversation.record.argv
        return next(name for name, one in self._sessions.agents.items() if one.argv == argv)


def _principal(context: Context) -> Principal:
    return _LOCAL if context.request is None else context.request.scope["accord.principal"]


def _left(context: Context) -> asyncio.Event:
    """Return what is set when the caller has left; the library cancels calls on stdio."""
    return asyncio.Event() if context.request is None else context.request.scope[_CALL]


# On stdin and stdout.


def serve_stdio(agents: Mapping[str, NamedAgent], settings: GatewaySettings) -> None:
    """Serve agents to the program that has started this process, until it leaves or a signal.

    Raises `SessionsError` if the state of the gateway cannot be read.
    """
    asyncio.run(_serve_stdio(AgentSessions(agents, settings)))


async def _serve_stdio(sessions: AgentSessions) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
        else:
            loop.add_signal_handler(number, stop.set)
    sessions.start_warm()
    gateway = McpGateway(sessions)
    serving = asyncio.create_task(gateway.serve_stdio(), name="accord gateway stdio")
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await gateway.aclose()
    await sessions.cancel_all(0)
    if not serving.done():
        # A thread of the library reads stdin, and would be waited for.
        logging.shutdown()
        os._exit(0)
    await serving
