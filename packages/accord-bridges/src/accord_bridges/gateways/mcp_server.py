"""An MCP server whose tools ask agents: `/mcp` of a gateway, or stdin and stdout.

A call of `ask` waits for the turn of the agent. What the person at the client decides is asked by
elicitation; a turn that is longer than its caller wants to wait goes on, and `wait` returns to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sqlite3
import sys
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import msgspec
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from msgspec import Meta, Struct

from accord.client.elicitation import ElicitationForm, form_error
from accord.client.events import (
    CommandsChanged,
    ContentChunk,
    PermissionRequest,
    Plan,
    Text,
    ToolCall,
)
from accord.errors import AccordError
from accord.remote.access import Event, HttpLimits, Principal, Receive, Scope, Send
from accord.text.excerpt import excerpt, one_line, visible
from accord.types.content import ImageContent
from accord.types.tool_calls import Diff
from accord_bridges.gateways.app import Mount
from accord_bridges.gateways.openai_forms import failure, permission_arguments
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerForm,
    CallerQuestion,
    Conversation,
    Exchange,
    GatewayError,
    GatewaySettings,
    Happening,
)
from accord_terminal.toolkit.agent_names import NamedAgent

log: logging.Logger = logging.getLogger("accord.gateway")

_TEXT = 1_000_000  # characters of an answer that are returned; the transcript has all
_IMAGES = 16
_IMAGE_BYTES = 8 << 20  # of all images of an answer
_LINES = 256  # of progress that wait for a slow caller
_MESSAGE = 4_000  # characters of a question
_KEPT = 256  # turns that have ended, for `wait`
_LISTED = 200  # sessions
_JOURNAL = 64 << 20  # bytes of a session whose transcript is made
_PATH = "accord://sessions/"
_CLOSE_S = 2.0
_CHANGES = frozenset({"edit", "delete", "move"})
_LOCAL = Principal("local", all_sessions=True)
_CALL = "accord.mcp_call"  # of a scope: whether its caller has left

_Context: TypeAlias = ServerRequestContext[Any, Any]
_Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
T = TypeVar("T")


# The arguments of the tools, and their results.


_Seconds: TypeAlias = Annotated[
    float,
    Meta(ge=0, description="Return after this time, while the turn goes on: see the tool `wait`."),
]
_Limit: TypeAlias = Annotated[int, Meta(ge=1, le=_LISTED)]


def _told(description: str) -> Any:
    return Meta(description=description)


class _Ask(Struct, forbid_unknown_fields=True):
    """Give a task to an agent, and wait for its answer."""

    prompt: Annotated[str, Meta(min_length=1, description="What the agent shall do, in words.")]
    agent: Annotated[str, _told("The agent of a new session.")] | None = None
    session: Annotated[str, _told("Continue this session; else a new one begins.")] | None = None
    directory: Annotated[str, _told("Where a new session works, an absolute path.")] | None = None
    model: Annotated[str, _told("The model of a new session, one of the agent.")] | None = None
    seconds: _Seconds | None = None


class _Answer(Struct, forbid_unknown_fields=True):
    """Answer a question of an agent, and wait for what it does. People decide permissions."""

    session: str
    values: Annotated[Mapping[str, Any], _told("Of the form; left out to decline.")] | None = None
    question: Annotated[str, _told("Its id, if there are several.")] | None = None
    seconds: _Seconds | None = None


class _Wait(Struct, forbid_unknown_fields=True):
    """Wait for the turn of a session, and return what it has come to."""

    session: str
    seconds: _Seconds | None = None


class _Cancel(Struct, forbid_unknown_fields=True):
    """Cancel what an agent does in a session."""

    session: str


class _Sessions(Struct, forbid_unknown_fields=True):
    """List the sessions with agents, those used last first."""

    limit: _Limit | None = None


_STRINGS = {"type": "array", "items": {"type": "string"}}
_TURN_SCHEMA = {
    "type": "object",
    "properties": {
        "session": {"type": "string"},
        "agent": {"type": "string"},
        "state": {"enum": ["completed", "failed", "working", "input_required"]},
        "stop_reason": {"type": ["string", "null"]},
        "text": {"type": "string"},
        "truncated": {"type": "boolean"},
        "changed_files": _STRINGS,
        "rejected": {**_STRINGS, "description": "Actions that were not allowed."},
        "usage": {"type": ["object", "null"]},
        "questions": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["session", "agent", "state", "text", "changed_files", "rejected"],
}
_SESSIONS_SCHEMA = {
    "type": "object",
    "properties": {"sessions": {"type": "array", "items": {"type": "object"}}},
    "required": ["sessions"],
}
# The arguments, the result, and whether the tool only reads.
_TOOLS: Mapping[str, tuple[type[Struct], Mapping[str, Any], bool]] = {
    "ask": (_Ask, _TURN_SCHEMA, False),
    "wait": (_Wait, _TURN_SCHEMA, True),
    "answer": (_Answer, _TURN_SCHEMA, False),
    "cancel": (_Cancel, _TURN_SCHEMA, False),
    "sessions": (_Sessions, _SESSIONS_SCHEMA, True),
}


def _input_schema(arguments: type[Struct], agents: list[str]) -> dict[str, Any]:
    [found] = msgspec.json.schema(arguments)["$defs"].values()
    properties: dict[str, Any] = found["properties"]
    for one in properties.values():  # an argument is left out instead of null
        kinds: list[dict[str, Any]] = one.pop("anyOf", [])
        one.update(*(kind for kind in kinds if kind.get("type") != "null"))
        one.pop("default", None)
    if "agent" in properties:
        properties["agent"]["enum"] = agents
    return {
        "type": "object",
        "properties": properties,
        "required": found["required"],
        "additionalProperties": False,
    }


def _read(given: Mapping[str, Any] | None, kind: type[T]) -> T:
    """Read the arguments of a tool. Raises `GatewayError`."""
    try:
        return msgspec.convert({k: v for k, v in (given or {}).items() if v is not None}, kind)
    except msgspec.ValidationError as error:
        raise GatewayError(str(error)) from None


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(text)], is_error=True)


class _Turn:
    """A turn, of which the calls of tools tell their callers.

    `calls` is the number of calls that wait for it: without one it ends after a time.
    """

    def __init__(self, exchange: Exchange, agent: str, learnt: Callable[[Any], None]) -> None:
        self.id = secrets.token_urlsafe(16)
        self.exchange = exchange
        self.agent = agent
        self.calls = 0
        self.asked: set[str] = set()  # the questions that a call asks now
        self.declined: list[str] = []
        self.news = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=_LINES)
        self.line_count = 0
        self.told = 0  # of the lines
        self._learnt = learnt
        self._questions: dict[str, CallerQuestion | CallerForm] = {}
        self._text: list[str] = []
        self._length = 0
        self._images: list[types.ImageContent] = []
        self._image_bytes = 0
        self._message: str | None = None
        self._breaks = False
        self._files: dict[str, None] = {}
        self._left: asyncio.TimerHandle | None = None
        self._reading = asyncio.create_task(self._read(), name="accord gateway mcp turn")
        self._reading.add_done_callback(lambda _: self.tell())

    @property
    def session(self) -> str:
        return self.exchange.conversation.id

    @property
    def has_ended(self) -> bool:
        return self._reading.done()

    @property
    def questions(self) -> list[CallerQuestion | CallerForm]:
        """What waits for an answer."""
        return [one for one in self._questions.values() if self.exchange.is_open(one.id)]

    async def _read(self) -> None:
        while True:
            async for found in self.exchange.happenings():
                for item in found:
                    self._take(item)
                self.tell()
            if self.exchange.has_ended:
                break
        self._learnt(self.exchange.conversation.commands)

    def tell(self) -> None:
        """Wake those that wait for news."""
        self.news.set()
        self.news = asyncio.Event()

    def _take(self, item: Happening) -> None:
        match item:
            case Text():
                self._add(item.text, item.message_id)
            case ToolCall():
                self._called(item)
            case Plan():
                now = next((one.content for one in item.entries if one.status == "in_progress"), "")
                done = sum(one.status in ("completed", "cancelled") for one in item.entries)
                if item.entries:
                    self._line(f"Plan, {done} of {len(item.entries)} done: {now}".rstrip(": "))
            case ContentChunk(content=ImageContent() as image, role="agent"):
                self._image_bytes += len(image.data)
                if len(self._images) < _IMAGES and self._image_bytes <= _IMAGE_BYTES:
                    data = b64encode(image.data).decode()
                    self._images.append(
                        types.ImageContent(type="image", data=data, mime_type=image.mime_type)
                    )
            case CommandsChanged():
                self._learnt(item.commands)
            case CallerQuestion() | CallerForm():
                self._questions[item.id] = item
            case _:
                pass

    def _add(self, text: str, message: str | None) -> None:
        if self._text and (self._breaks or message != self._message):
            self._text.append("\n\n")
        self._breaks, self._message = False, message
        if self._length < _TEXT:
            self._text.append(text[: _TEXT - self._length])
        self._length += len(text)

    def _called(self, call: ToolCall) -> None:
        self._breaks = True
        if {"title", "status"} & {*call.changed}:
            self._line(f"{call.title or call.name or call.kind}: {call.shown_status}")
        for part in call.content:
            if isinstance(part, Diff) and call.status != "failed":
                self._files |= dict.fromkeys((part.path, *part.others))
        if call.kind in _CHANGES and call.status == "completed":
            self._files |= dict.fromkeys(place.path for place in call.locations)

    def _line(self, line: str) -> None:
        line = one_line(line, 200)
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)
            self.line_count += 1

    def fresh_lines(self) -> list[tuple[int, str]]:
        """Return the lines of progress since the last call, with their numbers."""
        fresh = min(self.line_count - self.told, len(self.lines))
        self.told = self.line_count
        return [*enumerate([*self.lines][len(self.lines) - fresh :], self.told - fresh + 1)]

    @contextmanager
    def attended(self, leave_s: float) -> Generator[None]:
        """A call waits for the turn, which is cancelled if there is none for `leave_s` seconds."""
        self.calls += 1
        if self._left is not None:
            self._left.cancel()
        try:
            yield
        finally:
            self.calls -= 1
            if not self.calls and not self.has_ended:
                loop = asyncio.get_running_loop()
                self._left = loop.call_later(leave_s, self.exchange.cancel)

    async def wait_ended(self) -> None:
        await asyncio.wait([self._reading])

    async def aclose(self) -> None:
        if self._left is not None:
            self._left.cancel()
        self.exchange.cancel()
        await self.wait_ended()

    def result(self) -> types.CallToolResult:
        """Return what the turn has come to."""
        error = failure(self.exchange) if self.has_ended else None
        forms = [one for one in self.questions if isinstance(one, CallerForm)]
        if self.has_ended:
            state = "completed" if error is None else "failed"
        else:
            state = "input_required" if forms else "working"
        used = self.exchange.usage
        rejected = [*self.exchange.rejected, *self.declined]
        text = "".join(self._text)
        found: dict[str, Any] = {
            "session": self.session,
            "agent": self.agent,
            "state": state,
            "stop_reason": self.exchange.stop_reason,
            "text": text,
            "truncated": self._length > _TEXT,
            "changed_files": [*self._files],
            "rejected": rejected,
            "usage": None if used is None else msgspec.to_builtins(used),
            "questions": [
                {"id": one.id, "message": one.form.message, "schema": _form_schema(one.form)}
                for one in forms
            ],
        }
        # Clients that show a model the content only.
        lines = [f"session: {self.session}", f"state: {state}"]
        if error is not None:
            lines.append(f"error: {error}")
        if self._files:
            lines.append(f"changed files: {', '.join(self._files)}")
        if rejected:
            lines.append(f"not allowed: {', '.join(rejected)}")
        lines += (f"question {one.id}: {one.form.message}" for one in forms)
        content: list[types.ContentBlock] = [_text(text)] if text else []
        content += [*self._images, _text("\n".join(lines))]
        return types.CallToolResult(
            content=content, structured_content=found, is_error=error is not None
        )


# Questions to the person at the client.

_FIELDS = {"text": "string", "choice": "string", "choices": "array"}


def _form_schema(form: ElicitationForm) -> dict[str, Any]:
    """Return the schema of a form, in the words that MCP allows."""
    properties: dict[str, Any] = {}
    for one in form.fields:
        found: dict[str, Any] = {"type": _FIELDS.get(one.kind, one.kind), "title": one.title}
        choices = [{"const": choice.value, "title": choice.name} for choice in one.choices]
        if one.kind == "choice":
            found["oneOf"] = choices
        elif one.kind == "choices":
            found["items"] = {"anyOf": choices}
        what = {"text": "Length", "choices": "Items"}.get(one.kind)
        low, high = ("minimum", "maximum") if what is None else (f"min{what}", f"max{what}")
        optional = {
            "description": one.description,
            "default": one.default,
            low: one.minimum,
            high: one.maximum,
            "format": one.format if one.format in ("email", "uri", "date", "date-time") else None,
        }
        properties[one.name] = found | {k: v for k, v in optional.items() if v is not None}
    required = [one.name for one in form.fields if one.required]
    return {"type": "object", "properties": properties, "required": required}


def _option_names(request: PermissionRequest) -> dict[str, str]:
    """Return the ids of the options by names that differ."""
    found: dict[str, str] = {}
    for option in request.options:
        name = one_line(option.name or option.kind, 80)
        found[name if name not in found else f"{name} ({option.id})"] = option.id
    return found


def _permission_message(agent: str, request: PermissionRequest) -> str:
    about = permission_arguments(request)
    parts = [f"The agent {agent} asks for permission: {request.title or request.command}"]
    parts += (str(about[name]) for name in ("description", "command") if name in about)
    if paths := about.get("paths"):
        parts.append("Files: " + ", ".join(paths))
    parts += (one["patch"] for one in about.get("diffs", ()))
    return excerpt(visible("\n".join(parts)), _MESSAGE)


def _elicitation(turn: _Turn, question: CallerQuestion | CallerForm) -> types.ElicitRequest:
    if isinstance(question, CallerForm):
        message = excerpt(
            visible(f"The agent {turn.agent} asks: {question.form.message}"), _MESSAGE
        )
        schema = _form_schema(question.form)
    else:
        message = _permission_message(turn.agent, question.request)
        decision = {
            "type": "string",
            "title": "Decision",
            "enum": [*_option_names(question.request)],
        }
        schema = {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def _answered(turn: _Turn, question: CallerQuestion | CallerForm, given: object) -> None:
    """Pass on what the person has answered; what is no answer declines."""
    content: Mapping[str, Any] = {}
    if isinstance(given, types.ElicitResult) and given.action == "accept":
        content = given.content or {}
    if isinstance(question, CallerForm):
        values = {name: value for name, value in content.items() if value is not None}
        is_given = isinstance(given, types.ElicitResult) and given.action == "accept"
        turn.exchange.answer(question.id, values if is_given else None)
        return
    request = question.request
    chosen = _option_names(request).get(str(content.get("decision")), "")
    if not any(option.id == chosen and option.allows for option in request.options):
        turn.declined.append(one_line(request.title or request.command or "an action", 200))
    turn.exchange.answer(question.id, chosen)


def _elicits(context: _Context) -> bool:
    """Whether the client asks its person to fill in forms."""
    found = context.session.client_capabilities
    form = None if found is None else found.elicitation
    return form is not None and (form.form is not None or form.url is None)


class McpGateway:
    """Serves the agents of a gateway by MCP.

    At most `most` sessions of the transport are open, which end when they were not used for
    `idle_s` seconds. Those of the agents stay.
    """

    def __init__(self, sessions: AgentSessions, *, most: int = 256, idle_s: float = 1800.0) -> None:
        from accord import __version__

        self._sessions = sessions
        self._turns: dict[str, _Turn] = {}
        self._posts: set[asyncio.Future[None]] = set()
        self._stop = asyncio.Event()
        self._managing: asyncio.Task[None] | None = None
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
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._managing = asyncio.create_task(self._manage(ready), name="accord gateway mcp")
            await ready
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

    async def _manage(self, ready: asyncio.Future[None]) -> None:
        async with self._manager.run():
            ready.set_result(None)
            await self._stop.wait()

    async def serve_streams(self, read: Any, write: Any) -> None:
        """Serve one client on the streams of a transport of the library, until it leaves."""
        try:
            await self._server.run(read, write, self._server.create_initialization_options())
        finally:
            await self.aclose()

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
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        agents = [*self._sessions.agents]
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=" ".join((arguments.__doc__ or "").split()),
                    input_schema=_input_schema(arguments, agents),
                    output_schema=dict(schema),
                    annotations=types.ToolAnnotations(
                        read_only_hint=reads,
                        destructive_hint=name == "ask",
                        open_world_hint=name == "ask",
                    ),
                )
                for name, (arguments, schema, reads) in _TOOLS.items()
            ]
        )

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> _Result:
        if params.name not in _TOOLS:
            raise MCPError(
                types.INVALID_PARAMS,
                f"Unknown tool {params.name[:100]!r}: expected one of {', '.join(_TOOLS)}",
            )
        try:
            if params.request_state is not None:
                return await self._returned(context, params)
            match _read(params.arguments, _TOOLS[params.name][0]):
                case _Ask() as ask:
                    return await self._ask(context, ask)
                case _Answer() as answer:
                    return await self._answer(context, answer)
                case _Wait() as wait:
                    turn = self._turn_of(context, wait.session)
                    return await self._follow(context, turn, wait.seconds, only_waits=True)
                case _Cancel() as cancel:
                    return await self._cancel(context, cancel.session)
                case _Sessions() as wanted:
                    return self._list_sessions(context, wanted.limit or 20)
                case _:
                    raise AssertionError(params.name)
        except AccordError as error:
            return _failed(str(error))
        except MCPError:
            raise
        except Exception as error:
            log.exception("! a tool failed")
            return _failed(f"Internal error: {type(error).__name__}")

    async def _ask(self, context: _Context, ask: _Ask) -> _Result:
        conversation = await self._conversation(context, ask)
        exchange = conversation.start([ask.prompt], asks=_elicits(context), fills=True)
        agent = self._name_of(conversation)
        turn = _Turn(exchange, agent, lambda commands: self._learn(agent, commands))
        ended = [one for one in self._turns.values() if one.has_ended]
        for old in ended[: max(0, len(ended) - _KEPT)]:
            del self._turns[old.id]
        self._turns[turn.id] = turn
        return await self._follow(context, turn, ask.seconds)

    async def _conversation(self, context: _Context, ask: _Ask) -> Conversation:
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

    async def _answer(self, context: _Context, answer: _Answer) -> _Result:
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
            raise GatewayError(f"values: {wrong}; expected {_form_schema(form)}")
        turn.exchange.answer(found[0].id, answer.values)
        return await self._follow(context, turn, answer.seconds)

    async def _cancel(self, context: _Context, session: str) -> types.CallToolResult:
        turn = self._turn_of(context, session)
        for one in self._turns_of(session):
            one.exchange.cancel()
        await turn.wait_ended()
        return turn.result()

    def _list_sessions(self, context: _Context, limit: int) -> types.CallToolResult:
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
            content=[_text("\n".join(map(str.rstrip, lines)) or "There are no sessions.")],
            structured_content={"sessions": found},
        )

    # Turns.

    def _turns_of(self, session: str) -> list[_Turn]:
        return [one for one in self._turns.values() if one.session == session]

    def _turn_of(self, context: _Context, session: str) -> _Turn:
        """Return the turn of a session that runs, else the last one. Raises `GatewayError`."""
        self._sessions.find(session, _principal(context))
        turns = self._turns_of(session)
        running = [one for one in turns if not one.has_ended]
        if not turns:
            raise GatewayError(f"The session {session} has no turn here: begin one with `ask`")
        return running[0] if running else turns[-1]

    async def _returned(self, context: _Context, params: types.CallToolRequestParams) -> _Result:
        """Continue a call with what the person has answered."""
        turn = self._turns.get(params.request_state or "")
        if turn is None:
            raise GatewayError("The turn of this call has ended: call `ask` with its session")
        self._sessions.find(turn.session, _principal(context))
        responses = params.input_responses or {}
        for question in turn.questions:
            if question.id in responses:
                _answered(turn, question, responses[question.id])
        seconds = cast("Mapping[str, Any]", params.arguments or {}).get("seconds")
        only_waits = params.name == "wait"
        return await self._follow(context, turn, seconds, only_waits=only_waits)

    async def _follow(
        self, context: _Context, turn: _Turn, seconds: float | None, *, only_waits: bool = False
    ) -> _Result:
        """Wait for a turn, tell of its progress, and let the person answer its questions.

        A caller that leaves cancels the turn unless it `only_waits`.
        """
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        left = _left(context)
        elicits = _elicits(context)
        asking: set[asyncio.Task[None]] = set()
        try:
            with turn.attended(self._sessions.settings.answer_s):
                while not turn.has_ended:
                    news = turn.news
                    for number, line in turn.fresh_lines():
                        await context.session.report_progress(number, message=line)
                    questions = turn.questions
                    if questions and elicits and not context.session.can_send_request:
                        return types.InputRequiredResult(
                            input_requests={one.id: _elicitation(turn, one) for one in questions},
                            request_state=turn.id,
                        )
                    if not elicits and any(isinstance(one, CallerForm) for one in questions):
                        return turn.result()
                    for question in questions if elicits else ():
                        if question.id not in turn.asked:
                            turn.asked.add(question.id)
                            asking.add(
                                asyncio.create_task(
                                    self._elicit(context, turn, question), name="accord gateway ask"
                                )
                            )
                    if turn.has_ended or news.is_set():
                        continue
                    if not await _first(news, left, until):
                        break
                    if left.is_set():
                        if not only_waits:
                            turn.exchange.cancel()
                        break
        except asyncio.CancelledError:
            if not only_waits:
                turn.exchange.cancel()
            raise
        finally:
            for task in asking:
                task.cancel()
        return turn.result()

    async def _elicit(
        self, context: _Context, turn: _Turn, question: CallerQuestion | CallerForm
    ) -> None:
        """Ask the person, until somebody has answered."""
        request = _elicitation(turn, question)
        assert isinstance(request.params, types.ElicitRequestFormParams)
        asked = asyncio.create_task(
            context.session.elicit_form(
                request.params.message, request.params.requested_schema, context.request_id
            )
        )
        closed = asyncio.create_task(turn.exchange.wait_closed(question.id))
        given: object = None
        try:
            await asyncio.wait([asked, closed], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                with suppress(MCPError, NoBackChannelError, ValueError):
                    given = asked.result()
                _answered(turn, question, given)
        finally:
            turn.asked.discard(question.id)
            asked.cancel()
            closed.cancel()

    # Transcripts.

    async def _list_resources(
        self, context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        records = self._sessions.made_for(_principal(context), _LISTED)
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
        self, _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{_PATH}{{session}}",
            name="transcript",
            description="The transcript of a session",
            mime_type="text/markdown",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
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
        self, _context: _Context, _params: types.PaginatedRequestParams | None
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
        self, _context: _Context, params: types.GetPromptRequestParams
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
        message = types.PromptMessage(role="user", content=_text(text))
        return types.GetPromptResult(description=description, messages=[message])

    def _name_of(self, conversation: Conversation) -> str:
        argv = conversation.record.argv
        return next(name for name, one in self._sessions.agents.items() if one.argv == argv)


def _principal(context: _Context) -> Principal:
    return _LOCAL if context.request is None else context.request.scope["accord.principal"]


def _left(context: _Context) -> asyncio.Event:
    """Return what is set when the caller has left; the library cancels calls on stdio."""
    return asyncio.Event() if context.request is None else context.request.scope[_CALL]


async def _first(one: asyncio.Event, other: asyncio.Event, until: float | None) -> bool:
    """Wait for one of two events; return False if it is too late."""
    waits = [asyncio.create_task(one.wait()), asyncio.create_task(other.wait())]
    try:
        async with asyncio.timeout_at(until):
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        return False
    finally:
        for wait in waits:
            wait.cancel()
    return True


# On stdin and stdout.


def serve_stdio(agents: Mapping[str, NamedAgent], settings: GatewaySettings) -> None:
    """Serve agents to the program that has started this process, until it leaves or a signal.

    Raises `SessionsError` if the state of the gateway cannot be read.
    """
    asyncio.run(_serve_stdio(AgentSessions(agents, settings)))


async def _serve_stdio(sessions: AgentSessions) -> None:
    loop = asyncio.get_running_loop()
    serving = asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(serving.cancel))
        else:
            loop.add_signal_handler(number, serving.cancel)
    sessions.start_warm()
    gateway = McpGateway(sessions)
    try:
        async with stdio_server() as (read, write):
            await gateway.serve_streams(read, write)
    except asyncio.CancelledError:
        await sessions.cancel_all(0)
        # A thread of the library reads stdin; it would be waited for.
        logging.shutdown()
        os._exit(0)
    await sessions.cancel_all(0)
