"""`/ag-ui`: agents behind the AG-UI protocol, for web pages and other front ends.

A thread is a session, and a run is as much of a turn as goes without the front end: a run that
ends with a call of a front-end tool, or with an interrupt, is continued by the next one. `_Threads`
knows the session of each thread and which messages its agent has; `Turn` is kept while a turn
waits between two runs; `Reply` writes the events of a run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from accord import ContentBlock
from accord.client.elicitation import form_error
from accord.errors import AccordError
from accord.text import lenient_json
from accord_bridges.gateways.ag_ui_events import (
    BACKGROUND,
    PROTOCOL,
    Reply,
    Turn,
    capabilities,
    error_event,
    history,
)
from accord_bridges.gateways.app import Request, Routes
from accord_bridges.gateways.caller_tools import CallerTool
from accord_bridges.gateways.openai_forms import (
    Part,
    Place,
    blocks_of,
    failure,
    read,
    with_transcript,
)
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerCall,
    CallerForm,
    CallerPage,
    CallerQuestion,
    Conversation,
    GatewayError,
)

_PATH = "/ag-ui"
_THREADS = 100_000  # that are known
_LEFT = 256  # turns that ended while their front ends were away
_RESTORE_S = 60.0
_ID = 500  # characters of the id of a thread or a message
_OF_USER = ("user", "system", "developer")


class _Conflict(GatewayError):
    """A request does not fit what its thread waits for; it is an event of the run."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text, status=409, code=code)


# What a front end sends.


class _Message(Struct, rename="camel"):
    id: str
    role: str
    content: Any = None
    tool_call_id: str | None = None
    error: str | None = None
    tool_calls: list[Any] | None = None


class _Tool(Struct):
    name: str
    description: str | None = ""
    parameters: Any = None


class _Context(Struct):
    description: str
    value: str


class _Resume(Struct, rename="camel"):
    interrupt_id: str
    status: str
    payload: Any = None


class _Wishes(Struct):
    cwd: str | None = None
    model: str | None = None
    ask: bool | None = None


class _Input(Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[_Message]
    protocol_version: str | None = None
    state: Any = None
    tools: list[_Tool] | None = None
    context: list[_Context] | None = None
    forwarded_props: Any = None
    resume: list[_Resume] | None = None

    @property
    def wants_history(self) -> bool:
        """Whether the front end knows nothing of the thread: its page was loaded again."""
        return not self.messages and self.resume is None

    def wishes(self) -> _Wishes:
        """Return what the front end says to the gateway, in `forwardedProps.acp`."""
        props = self.forwarded_props
        found: Any = props.get("acp") if lenient_json.is_object(props) else None
        try:
            return msgspec.convert({} if found is None else found, _Wishes)
        except msgspec.ValidationError as error:
            where = "forwardedProps.acp"
            raise GatewayError(f"{where}: {error}", param=where) from None

    def asks(self) -> bool:
        """Return whether the front end can answer interrupts."""
        ask = self.wishes().ask
        if ask is not None:
            return ask
        # Front ends of releases before interrupts have neither.
        return self.protocol_version is not None or self.resume is not None


class _Source(Struct, rename="camel"):
    type: str
    value: str
    mime_type: str | None = None


class _Part(Struct):
    type: str
    text: str = ""
    source: _Source | None = None
    metadata: Any = None


def _parts(content: Any, where: str) -> str | list[Part]:
    """Return the content of a message in the form that `blocks_of` checks."""
    if content is None or isinstance(content, str):
        return content or ""
    try:
        given = msgspec.convert(content, list[_Part])
    except msgspec.ValidationError as error:
        raise GatewayError(f"{where}: {error}", param=where) from None
    return [_openai_part(part, f"{where}[{number}]") for number, part in enumerate(given)]


def _openai_part(part: _Part, where: str) -> Part:
    if part.type == "text":
        return Part("text", text=part.text)
    source = part.source
    if part.type not in ("image", "audio", "document") or source is None:
        raise GatewayError(
            f"{where}: expected a part of type text, image, audio or document with a source, got"
            f" {part.type!r}",
            param=where,
        )
    kind = source.mime_type or "application/octet-stream"
    is_url = source.type == "url" and not source.value.startswith("data:")
    if source.type not in ("data", "url"):
        raise GatewayError(
            f"{where}.source: expected data or url, got {source.type!r}: files of a provider are"
            " not known here",
            param=f"{where}.source",
        )
    url = source.value if source.type == "url" else f"data:{kind};base64,{source.value}"
    if part.type == "image":
        return Part("image_url", image_url=url)
    name: Any = part.metadata.get("filename") if lenient_json.is_object(part.metadata) else None
    if is_url:
        return Part("file", file_url=url, filename=str(name or url.rpartition("/")[2]))
    if part.type == "audio":
        data = url.partition(",")[2]
        return Part("input_audio", input_audio={"data": data, "format": kind.rpartition("/")[2]})
    return Part("file", file_data=url, filename=str(name or "document"))


def _text_of(content: Any) -> str:
    """Return the text of a message of a history, without its other parts."""
    if isinstance(content, str):
        return content
    if not lenient_json.is_array(content):
        return ""
    parts = [part for part in content if lenient_json.is_object(part)]
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in parts)


def _background(given: _Input) -> str:
    """Return what the application says about itself, which belongs to no message."""
    parts = [f"{one.description}: {one.value}" for one in given.context or ()]
    state = given.state
    if lenient_json.is_object(state):
        state = {name: value for name, value in state.items() if name != "acp"}
    if state not in (None, {}, [], ""):
        parts.append(f"Its state: {json.dumps(state, ensure_ascii=False)}")
    return "\n\n".join([BACKGROUND, *parts]) if parts else ""


# Threads.


class _Thread(Struct):
    """A thread of a principal with an agent; `known` are the ids of messages that the agent has."""

    row: int
    session: str
    told: bytes  # the hash of what the application has said about itself
    known: set[str]


class _Threads:
    """The sessions of threads, in the database of the gateway."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(
            "CREATE TABLE IF NOT EXISTS ag_ui_threads (id INTEGER PRIMARY KEY,"
            " principal TEXT NOT NULL, agent TEXT NOT NULL, thread TEXT NOT NULL,"
            " session TEXT NOT NULL, told BLOB NOT NULL, UNIQUE (principal, agent, thread));"
            "CREATE TABLE IF NOT EXISTS ag_ui_messages (thread INTEGER NOT NULL,"
            " message TEXT NOT NULL, PRIMARY KEY (thread, message)) WITHOUT ROWID;"
        )

    def find(self, principal: str, agent: str, thread: str) -> _Thread | None:
        row = self._database.execute(
            "SELECT id, session, told FROM ag_ui_threads"
            " WHERE principal = ? AND agent = ? AND thread = ?",
            (principal, agent, thread),
        ).fetchone()
        if row is None:
            return None
        found = self._database.execute(
            "SELECT message FROM ag_ui_messages WHERE thread = ?", row[:1]
        )
        return _Thread(row[0], row[1], row[2], {one for (one,) in found})

    def add(self, principal: str, agent: str, thread: str, session: str) -> _Thread:
        """Begin a thread, again if its session does not exist any more."""
        database = self._database
        old = self.find(principal, agent, thread)
        if old is not None:
            database.execute("DELETE FROM ag_ui_messages WHERE thread = ?", (old.row,))
        row = database.execute(
            "INSERT OR REPLACE INTO ag_ui_threads VALUES (NULL, ?, ?, ?, ?, ?) RETURNING id",
            (principal, agent, thread, session, b""),
        ).fetchone()[0]
        if row % 1000 == 0:
            oldest = (row - _THREADS,)
            database.execute("DELETE FROM ag_ui_threads WHERE id <= ?", oldest)
            database.execute("DELETE FROM ag_ui_messages WHERE thread <= ?", oldest)
        return _Thread(row, session, b"", set())

    def sent(self, thread: int, messages: Iterable[str], told: bytes) -> None:
        """Note what the agent gets."""
        rows = [(thread, one) for one in messages]
        self._database.executemany("INSERT OR IGNORE INTO ag_ui_messages VALUES (?, ?)", rows)
        self._tell(thread, told)

    def failed(self, thread: int, messages: Iterable[str]) -> None:
        """Note that the agent could not be started for these messages: they are sent again."""
        rows = [(thread, one) for one in messages]
        self._database.executemany(
            "DELETE FROM ag_ui_messages WHERE thread = ? AND message = ?", rows
        )
        self._tell(thread, b"")

    def _tell(self, thread: int, told: bytes) -> None:
        self._database.execute("UPDATE ag_ui_threads SET told = ? WHERE id = ?", (told, thread))


# The routes.


class AgUi:
    """Serves runs, and the list of the agents with what they can do."""

    def __init__(self, sessions: AgentSessions) -> None:
        self._sessions = sessions
        self._threads = _Threads(sessions.database)
        self._left: dict[str, Turn] = {}  # the turns that wait for their front ends, by session

    def routes(self) -> Routes:
        """Return the paths."""
        return Routes(
            error_event,
            {
                ("GET", _PATH): self._list,
                ("GET", f"{_PATH}/*"): self._capabilities,
                ("POST", f"{_PATH}/*"): self._run,
                ("POST", f"{_PATH}/*/*"): self._run,
            },
        )

    def _agent(self, path: str) -> tuple[str, str | None]:
        """Return the agent and the model of a path."""
        agent, _, model = path.removeprefix(f"{_PATH}/").partition("/")
        if agent not in self._sessions.agents:
            known = ", ".join(self._sessions.agents)
            raise GatewayError(
                f"Unknown agent {agent[:100]!r}: expected one of {known}",
                status=404,
                code="unknown_agent",
            )
        return agent, model or None

    async def _list(self, request: Request) -> None:
        agents = [
            {"name": name, "path": f"{_PATH}/{name}", "capabilities": capabilities(name)}
            for name in self._sessions.agents
        ]
        await request.respond({"protocolVersion": PROTOCOL, "agents": agents})

    async def _capabilities(self, request: Request) -> None:
        await request.respond(capabilities(self._agent(request.path)[0]))

    async def _run(self, request: Request) -> None:
        agent, model = self._agent(request.path)
        given = read(request.body, _Input)
        if not 0 < len(given.thread_id) <= _ID:
            raise GatewayError(f"threadId: expected 1 to {_ID} characters", param="threadId")
        for number, message in enumerate(given.messages):
            if len(message.id) > _ID:
                where = f"messages[{number}].id"
                raise GatewayError(
                    f"{where}: expected at most {_ID} characters, got {len(message.id)}",
                    param=where,
                )
        thread = self._threads.find(request.principal.name, agent, given.thread_id)
        conversation = self._conversation(thread, request)
        reply = Reply(
            request,
            {"threadId": given.thread_id, "runId": given.run_id},
            agent,
            given=given.state,
            offered=frozenset(tool.name for tool in given.tools or ()),
            answer_s=self._sessions.settings.answer_s,
        )
        if given.wants_history:
            await self._restore(reply, request, conversation, thread)
            return
        known = thread.known if thread is not None and conversation is not None else None
        content, messages = _new_content(given, known)
        turn = self._left.get(conversation.id) if conversation is not None else None
        if turn is not None and turn.exchange.stop_reason == "cancelled":
            turn = None  # its front end did not return in time
        try:
            answers = self._answers(given, turn, has_new=bool(content))
        except _Conflict:
            await reply.begin(conversation)
            raise
        if conversation is None:
            wishes = given.wishes()
            conversation = await self._sessions.new(
                agent,
                request.principal,
                model=model or wishes.model,
                cwd=Place.of(request, {"cwd": wishes.cwd}, "forwardedProps.acp").cwd,
            )
            thread = self._threads.add(
                request.principal.name, agent, given.thread_id, conversation.id
            )
        assert thread is not None
        self._left.pop(conversation.id, None)
        if turn is not None and answers is not None:
            for call_id, answer in answers.items():
                turn.exchange.answer(call_id, answer)
            turn.asked.clear()
        elif content:
            if turn is not None:
                turn.exchange.cancel()  # the user has moved on
            turn = self._start(given, conversation, thread, content, messages)
            content = []
        else:  # what was cancelled was not open any more
            await reply.begin(conversation)
            await reply.finish(None)
            return
        running = turn

        def left() -> None:
            running.exchange.cancel()

        async with request.until_gone(left):
            await reply.begin(conversation)
            await self._follow(reply, running)
            if content and not running.asked and not running.exchange.is_left:
                running = self._start(given, conversation, thread, content, messages)
                await self._follow(reply, running)
        await reply.finish(running)

    async def _restore(
        self,
        reply: Reply,
        request: Request,
        conversation: Conversation | None,
        thread: _Thread | None,
    ) -> None:
        """Give a front end what was said in its thread, and what it is asked now."""
        await reply.begin(conversation)
        if conversation is None or thread is None:
            reply.restore([])
            await reply.finish(None)
            return
        try:
            async with asyncio.timeout(_RESTORE_S) as limit:

                def left() -> None:
                    limit.reschedule(0)

                async with request.until_gone(left):
                    transcript = await conversation.whole_transcript()
        except TimeoutError:
            raise GatewayError(
                f"The session was not loaded within {_RESTORE_S:g} s", status=504
            ) from None
        except AccordError as error:
            raise GatewayError(
                f"The session cannot be loaded: {error}", status=502, code="agent_failed"
            ) from None
        messages = history(transcript)
        users = [one["id"] for one in messages if one["role"] == "user"]
        self._threads.sent(thread.row, users, thread.told)
        reply.restore(messages)
        turn = self._left.get(conversation.id)
        await reply.finish(None if turn is None or turn.exchange.has_ended else turn)

    def _conversation(self, thread: _Thread | None, request: Request) -> Conversation | None:
        """Return the conversation of a thread, None if its session is closed or deleted."""
        if thread is None:
            return None
        try:
            return self._sessions.find(thread.session, request.principal)
        except GatewayError:
            return None

    def _start(
        self,
        given: _Input,
        conversation: Conversation,
        thread: _Thread,
        content: list[ContentBlock],
        messages: Sequence[str],
    ) -> Turn:
        background = _background(given)
        told = hashlib.sha256(background.encode()).digest()
        if background and told != thread.told:
            content = [f"{background}\n\n---\n\n", *content]
        tools = [
            CallerTool(
                tool.name,
                tool.description or "",
                tool.parameters if lenient_json.is_object(tool.parameters) else {},
            )
            for tool in given.tools or ()
        ]
        asks = given.asks()
        exchange = conversation.start(content, tools=tools, asks=asks, fills=asks, visits=asks)
        self._threads.sent(thread.row, messages, told)
        return Turn(exchange, thread.row, messages)

    async def _follow(self, reply: Reply, turn: Turn) -> None:
        """Report a turn until it ends or waits for its front end."""
        await reply.follow(turn)
        exchange = turn.exchange
        if exchange.error is not None and exchange.conversation.transcript is None:
            self._threads.failed(turn.thread, turn.messages)
        if (error := failure(exchange)) is not None:
            raise error
        if turn.asked:
            self._left[exchange.conversation.id] = turn
            ended = [key for key, one in self._left.items() if one.exchange.has_ended]
            for key in ended[: max(0, len(ended) - _LEFT)]:
                del self._left[key]

    def _answers(self, given: _Input, turn: Turn | None, *, has_new: bool) -> dict[str, Any] | None:
        """Return the answers to what a turn waits for, by the ids of calls and interrupts.

        None if the front end lets the calls be, and begins a new turn. Raises `_Conflict` if
        something is answered that is not open, or if an answer is missing.
        """
        asked = turn.asked if turn is not None else {}
        found: dict[str, Any] = {}
        for number, entry in enumerate(given.resume or ()):
            question = asked.get(entry.interrupt_id)
            where = f"resume[{number}]"
            if question is None or isinstance(question, CallerCall):
                if entry.status == "cancelled":
                    continue
                raise _Conflict(
                    f"{where}: the interrupt {entry.interrupt_id[:80]!r} is not open: its turn has"
                    " ended, or it was answered",
                    "interrupt_not_open",
                )
            cancelled = entry.status == "cancelled"
            found[question.id] = (
                None if cancelled else _resolved(question, entry.payload, f"{where}.payload")
            )
        results = {one.tool_call_id: one for one in given.messages if one.role == "tool"}
        for call_id, item in asked.items():
            if isinstance(item, CallerCall) and (message := results.get(call_id)) is not None:
                text = _text_of(message.content)
                found[call_id] = f"{text}\nError: {message.error}" if message.error else text
        missing = {
            one: asked[one] for one in asked if one in self._sessions.waiting and one not in found
        }
        if not missing:
            last = given.messages[-1] if given.messages else None
            if not found and not has_new and last is not None and last.role == "tool":
                raise _Conflict(
                    f"The tool call {last.tool_call_id!r} is not open: its turn has ended. Continue"
                    " the conversation with a message of the user",
                    "tool_call_not_open",
                )
            if not found and not has_new and given.resume is None:
                raise _nothing_to_do()
            return found
        calls_only = all(isinstance(one, CallerCall) for one in missing.values())
        if has_new and not found and calls_only:
            return None
        names = ", ".join(missing)
        if calls_only:
            raise _Conflict(
                f"The thread waits for the results of {names}: send them as messages of role tool",
                "tool_result_missing",
            )
        raise _Conflict(
            f"The thread waits for answers to {names}: send them in resume", "interrupt_open"
        )


def _new_content(given: _Input, known: set[str] | None) -> tuple[list[ContentBlock], Sequence[str]]:
    """Return the content of the messages that the agent does not have, and the messages' ids.

    `known` are the ids of those that it has, None if the thread is new: then the first prompt has
    the history. A message that is sent again, after which nothing was said, is a prompt again.
    """
    messages = given.messages
    first = len(messages)
    while first and messages[first - 1].role == "user":
        first -= 1
    places = [
        number
        for number, one in enumerate(messages)
        if one.role in _OF_USER and (known is None or one.id not in known)
    ]
    is_known = known is not None
    prompts = [number for number in places if messages[number].role == "user"]
    if is_known and not places and given.resume is None:
        prompts = [*range(first, len(messages))]
    if not is_known:
        prompts = [*range(first, len(messages))]
    content = [
        block
        for number in prompts
        for block in _blocks(messages[number].content, f"messages[{number}].content")
    ]
    roles = ("system", "developer") if is_known else (*_OF_USER, "assistant", "tool")
    before = [
        ("system" if one.role == "developer" else one.role, text)
        for number, one in enumerate(messages)
        if number not in prompts
        and one.role in roles
        and (not is_known or number in places)
        and (text := _text_of(one.content).strip())
    ]
    if not content:
        if not is_known:
            raise _nothing_to_do()
        return [], []
    return with_transcript(before, content), [messages[number].id for number in places]


def _nothing_to_do() -> GatewayError:
    return GatewayError(
        "messages: expected a message of the user that the agent does not have", param="messages"
    )


def _blocks(content: Any, where: str) -> list[ContentBlock]:
    return blocks_of(_parts(content, where), where)


def _resolved(question: CallerQuestion | CallerForm | CallerPage, payload: Any, where: str) -> Any:
    """Return the answer to an interrupt. Raises `_Conflict` for one that does not fit."""
    given: Mapping[str, Any] = payload if lenient_json.is_object(payload) else {}
    approved: Any = payload if isinstance(payload, bool) else given.get("approved")
    if isinstance(question, CallerPage):
        if isinstance(approved, bool):
            return approved
        wrong = "expected approved: whether the user opens the URL"
    elif isinstance(question, CallerForm):
        if not lenient_json.is_object(payload):
            wrong = "expected an object with the values of the form"
        elif (error := form_error(question.form, payload)) is None:
            return payload
        else:
            wrong = error
    else:
        options = question.request.options
        option: Any = payload if isinstance(payload, str) else given.get("option")
        chosen = next((one.id for one in options if option in (one.id, one.kind)), None)
        if given.get("editedArgs") is not None:
            wrong = "editedArgs are not possible: the agent does what it has asked for"
        elif chosen is not None:
            return chosen
        elif option is None and isinstance(approved, bool):
            once = "allow_once" if approved else "reject_once"
            fitting = [one for one in options if one.allows == approved]
            fitting.sort(key=lambda one: one.kind != once)
            return fitting[0].id if fitting else None
        else:
            ids = ", ".join(one.id for one in options)
            wrong = f"expected approved, or option: one of {ids}"
    raise _Conflict(f"{where}: {wrong}", "invalid_payload")
