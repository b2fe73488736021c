"""The client that a scenario plays: it opens sessions, sends prompts, and serves the agent.

`ScenarioClient` speaks one version and hides the differences from scenarios: `supports` has one
name for a capability of both, `prompt_for` sends the prompt of the settings for a purpose,
and `SentPrompt` collects what the turn did. Before it are the files and terminals that it serves.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from accord.errors import StartError
from accord.local.command import LocalCommand
from accord.local.files import OutsideRoots, Roots
from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.settings import FOLDER, Settings, TurnTimeout
from accord_conformance.harness import (
    LoginRequired,
    NoResponse,
    NoSessionResponse,
    NotExercised,
    RawConnection,
)
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Frame, Notification, Request, format_value

# The services of a client for agents of version 1: real files and terminals.

_Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClientServices:
    """Serves `fs/` and `terminal/` inside `folder`; `aclose` stops running commands."""

    def __init__(self, connection: RawConnection, folder: Path) -> None:
        self._connection = connection
        self.folder = folder
        self._terminals: dict[str, LocalCommand] = {}
        self._made = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, _Handler] = {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def serve(self, call: Request) -> bool:
        """Respond to a request if it is one of these, perhaps later; return whether it is."""
        handler = self._handlers.get(call.method)
        if handler is None:
            return False
        task = asyncio.ensure_future(self._answer(handler, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def aclose(self) -> None:
        """Stop all commands and the requests that wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._terminals:
            await self._terminals.popitem()[1].aclose()

    async def _answer(self, handler: _Handler, call: Request) -> None:
        params = call.params if is_object(call.params) else {}
        try:
            result = await handler(params)
        except _Refused as refused:
            self._connection.respond_error(call, refused.code, str(refused))
        except (OutsideRoots, OSError, UnicodeDecodeError) as error:
            code = -32002 if isinstance(error, FileNotFoundError) else -32603
            self._connection.respond_error(call, code, "The file cannot be used")
        except Exception:  # noqa: BLE001  # the agent gets a response in any case
            self._connection.record_kit_error()
            self._connection.respond_error(call, -32603, "Error in the conformance kit")
        else:
            self._connection.respond(call, result)

    def _roots(self) -> Roots:
        return Roots([str(self.folder)])

    async def _read(self, params: dict[str, Any]) -> Any:
        text = self._roots().read(_path(params))
        lines = text.splitlines(keepends=True)
        first = max((_number(params, "line") or 1) - 1, 0)
        limit = _number(params, "limit")
        last = len(lines) if limit is None else first + limit
        return {"content": "".join(lines[first:last])}

    async def _write(self, params: dict[str, Any]) -> Any:
        content = params.get("content")
        if not isinstance(content, str):
            raise _Refused(-32602, "Expected the content")
        self._roots().write(_path(params), content)
        return {}

    async def _create(self, params: dict[str, Any]) -> Any:
        given, cwd = params.get("args"), params.get("cwd")
        args = given if is_array(given) else []
        words = [str(word) for word in (params.get("command"), *args)]
        if not isinstance(params.get("command"), str) or "\0" in "".join(words):
            raise _Refused(-32602, "Expected a command")
        if cwd is not None and (not isinstance(cwd, str) or "\0" in cwd):
            raise _Refused(-32602, "Expected a directory")
        env = {
            str(entry.get("name")): str(entry.get("value")) for entry in _entries(params.get("env"))
        }
        try:
            command = LocalCommand(
                words,
                cwd=cwd or str(self.folder),
                env=env,
                output_bytes=_number(params, "outputByteLimit"),
            )
        except StartError:
            raise _Refused(-32603, "The command cannot be started") from None
        self._made += 1
        ident = f"terminal-{self._made}"
        self._terminals[ident] = command
        return {"terminalId": ident}

    async def _output(self, params: dict[str, Any]) -> Any:
        output = self._terminal(params).output
        text = output.text()
        exited = None if self._terminal(params).running else self._status(params)
        return {"output": text, "truncated": output.truncated, "exitStatus": exited}

    async def _wait(self, params: dict[str, Any]) -> Any:
        await self._terminal(params).wait()
        return self._status(params)

    async def _kill(self, params: dict[str, Any]) -> Any:
        await self._terminal(params).kill()
        return {}

    async def _release(self, params: dict[str, Any]) -> Any:
        command = self._terminal(params)
        del self._terminals[params["terminalId"]]
        await command.aclose()
        return {}

    def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        code, signal = self._terminal(params).status()
        return {"exitCode": code, "signal": signal}

    def _terminal(self, params: dict[str, Any]) -> LocalCommand:
        command = self._terminals.get(str(params.get("terminalId")))
        if command is None:
            raise _Refused(-32602, "Unknown terminal")
        return command


def _number(params: dict[str, Any], key: str) -> int | None:
    value = params.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise _Refused(-32602, f"Expected a number as {key}")


def _path(params: dict[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or "\0" in path:
        raise _Refused(-32602, "Expected a path")
    return path


def _entries(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if is_object(entry)] if is_array(value) else []


# The capabilities of an agent, by one name for both versions.

Json: TypeAlias = dict[str, Any]

# In version 1 some are booleans. All others are markers, and `session` includes several.
_BOOLEANS = ("loadSession", "promptCapabilities", "mcpCapabilities")
_WHERE: dict[str, tuple[str, str]] = {
    "load": ("loadSession", ""),
    "resume": ("sessionCapabilities.resume", "session"),
    "list": ("sessionCapabilities.list", "session"),
    "close": ("sessionCapabilities.close", "session"),
    "delete": ("sessionCapabilities.delete", "session.delete"),
    "fork": ("sessionCapabilities.fork", "session.fork"),
    "archive": ("sessionCapabilities.archive", "session.archive"),
    "status": ("sessionCapabilities.status", "session.status"),
    "title": ("sessionCapabilities.title", "session.title"),
    "system prompts": ("sessionCapabilities.systemPrompt", "session.systemPrompt"),
    "system prompts with mode override": (
        "sessionCapabilities.systemPrompt.mode.override",
        "session.systemPrompt.mode.override",
    ),
    "additional directories": (
        "sessionCapabilities.additionalDirectories",
        "session.additionalDirectories",
    ),
    "images": ("promptCapabilities.image", "session.prompt.image"),
    "audio": ("promptCapabilities.audio", "session.prompt.audio"),
    "resources": ("promptCapabilities.embeddedContext", "session.prompt.embeddedContext"),
    "MCP over stdio": ("", "session.mcp.stdio"),
    "MCP over HTTP": ("mcpCapabilities.http", "session.mcp.http"),
    "MCP over ACP": ("mcpCapabilities.acp", "session.mcp.acp"),
    "logout": ("auth.logout", ""),
    "login status": ("auth.status", "auth.status"),
    "providers": ("providers", "providers"),
}


def supports(what: str, version: int, result: Json) -> bool:
    """Return whether the result of `initialize` advertises a capability."""
    path = _WHERE[what][version - 1]
    if what == "logout" and version == 2:
        return bool(result.get("authMethods"))
    if what == "MCP over stdio" and version == 1:
        return True  # R-MCP-01
    if not path:
        return False
    found: Any = result.get("agentCapabilities" if version == 1 else "capabilities")
    for step in path.split("."):
        found = found.get(step) if is_object(found) else None
    return found is True if version == 1 and path.startswith(_BOOLEANS) else is_object(found)


def add_capabilities(paths: Mapping[str, tuple[str, str]]) -> None:
    """Add capabilities of an extension: the paths in versions 1 and 2, by name."""
    _WHERE.update(paths)


# Responds to a request of the agent, at once or later.
Policy: TypeAlias = Callable[[Request], None]

ALL_CAPABILITIES_V1: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "subagents": {},
    "plan": {},
    "elicitation": {"form": {}, "url": {}},
}
# The id of a session that does not exist. Some agents accept only ids in the form of a UUID.
UNKNOWN_SESSION = "acc07d00-0000-4000-8000-000000000000"
ALL_CAPABILITIES_V2: Json = {"elicitation": {"form": {}, "url": {}}}
CLIENT_INFO: Json = {"name": "accord-check", "title": "Accord's conformance kit", "version": "1"}

_LOGIN_NEEDED = -32000
_MAX_TEXT = 10_000  # characters, whatever a form requires
_BUSY = ("running", "requires_action")


def text_block(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


class SentPrompt:
    """A prompt that was sent; `request` is its request, `purpose` that of the settings."""

    def __init__(
        self, client: ScenarioClient, session: str, call: Request, purpose: str = ""
    ) -> None:
        self.request = call
        self.purpose = purpose
        self.session = session
        self._client = client
        self._began = call.frame.number

    def updates(self, *kinds: str) -> list[tuple[Notification, Json]]:
        """Return the updates of the session since the prompt, only these kinds if any are given."""
        updates = self._client.updates(self.session, *kinds)
        return [(note, update) for note, update in updates if note.frame.number > self._began]

    def states(self) -> list[tuple[Notification, Json]]:
        """Return the state updates since the prompt."""
        return self.updates("state_update")

    @property
    def is_inserted(self) -> bool:
        """Whether the message has its place in the conversation (version 2)."""
        return self.request.ok

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended, or was refused."""
        reply = self.request.response
        if reply is None:
            return False
        if self._client.version == 1 or not self.request.ok:
            return True
        states = self.states()
        if not states or states[-1][1].get("state") != "idle":
            return False
        worked = any(update.get("state") in _BUSY for _, update in states)
        note, idle = states[-1]
        return worked or (note.frame.number > reply.frame.number and "stopReason" in idle)

    @property
    def stop_reason(self) -> Any:
        """Why the turn ended; None when it has not, or in an error."""
        if self._client.version == 1:
            return self.request.result.get("stopReason") if is_object(self.request.result) else None
        return self.states()[-1][1].get("stopReason") if self.is_over and self.request.ok else None

    async def wait_for_end(self, *, within_s: float | None = None) -> None:
        """Return when the turn has ended; raise `NoResponse`."""
        patience = self._client.turn_timeout
        try:
            await self._client.connection.wait_until(
                lambda: self.is_over,
                "end of the turn",
                within_s=patience.seconds if within_s is None else within_s,
            )
        except NoResponse:
            patience.turn_timed_out()
            raise
        patience.turn_ended()

    def agent_text(self) -> str:
        """Return the text of the agent's messages and tool calls in this turn."""
        return "".join(_texts([update for _, update in self.updates()]))

    @property
    def evidence(self) -> tuple[Any, ...]:
        """The messages that show the end of the turn."""
        ends = [note for note, _ in self.states()[-1:]]
        return (self.request, *ends)


class ScenarioClient:
    """A client of `version`; call `initialize` first.

    `permission_policy` and `elicitation_policy` answer in place of the user, `mcp_policy` in place
    of an MCP server of the client; change them as needed.
    """

    def __init__(
        self,
        connection: RawConnection,
        version: int,
        settings: Settings,
        folder: Path,
        turn_timeout: TurnTimeout,
    ) -> None:
        self.connection = connection
        self.version = version
        self.settings = settings
        self.turn_timeout = turn_timeout
        self.folder = folder
        self.result: Json = {}
        self.login_request: Request | None = (
            None  # the request for the login of the settings, if they name one
        )
        self.permission_policy: Policy = self.allow
        self.elicitation_policy: Policy = self.accept_elicitation
        self.mcp_policy: Policy = self.refuse_mcp
        self._services = ClientServices(connection, folder)
        self.obeys_cancel_request = True  # answers requests that the agent cancels
        self.turns: list[SentPrompt] = []  # of this scenario, those that ran until their end
        self._serves = True
        self._updates: defaultdict[str | None, list[tuple[Notification, Json]]] = defaultdict(list)
        self._sorted = 0  # notifications whose update is in `_updates`
        connection.answer_s = settings.answer
        connection.on_request = self._on_request
        connection.on_notification = self._on_notification

    async def aclose(self) -> None:
        """Disconnect, and stop the terminals of the client."""
        await self._services.aclose()
        await self.connection.aclose()

    def start_scenario(self, folder: Path, where: str) -> None:
        """Start a scenario in this folder, with the default policies."""
        self.folder = folder
        self._services.folder = folder
        self.connection.observer.where = where
        self.permission_policy, self.elicitation_policy = self.allow, self.accept_elicitation
        self.mcp_policy = self.refuse_mcp
        self.obeys_cancel_request = True
        self.turns = []

    # Handshake.

    def initialize_params(
        self, version: Any = None, capabilities: Json | None = None, **more: Any
    ) -> Json:
        """Return the params of `initialize`."""
        if self.version == 1:
            capabilities = ALL_CAPABILITIES_V1 if capabilities is None else capabilities
            names = {"clientCapabilities": capabilities, "clientInfo": CLIENT_INFO}
        else:
            capabilities = ALL_CAPABILITIES_V2 if capabilities is None else capabilities
            names = {"capabilities": capabilities, "info": CLIENT_INFO}
        return {"protocolVersion": self.version if version is None else version, **names, **more}

    async def initialize(self, capabilities: Json | None = None, **more: Any) -> Request:
        """Initialize, and log in if the settings name a login; raise `NoResponse`."""
        self._serves = capabilities is None
        call = self.connection.send_request(
            "initialize", self.initialize_params(None, capabilities, **more)
        )
        await self.connection.wait_for_response(call, within_s=self.settings.timeout)
        self.result = call.result if is_object(call.result) else {}
        if call.ok and self.settings.login:
            self.login_request = await self.log_in()
        return call

    async def log_in(self) -> Request:
        """Log in with the login of the settings."""
        method = "authenticate" if self.version == 1 else "auth/login"
        call = self.connection.send_request(method, {"methodId": self.settings.login})
        await self.connection.wait_for_response(call, within_s=self.settings.timeout)
        return call

    def supports(self, what: str) -> bool:
        """Return whether the agent advertises a capability, by its name in `_WHERE`."""
        return supports(what, self.version, self.result)

    def require(self, *what: str) -> None:
        """Raise `NotExercised` unless the agent advertises these capabilities."""
        for name in what:
            if not self.supports(name):
                raise NotExercised(f"the agent does not advertise {name}")

    # Sessions.

    def setup_params(self, **more: Any) -> Json:
        """Return the params of a request that opens a session."""
        servers: Json = {"mcpServers": []} if self.version == 1 else {}
        return {"cwd": str(self.folder), **servers, **more}

    async def open_session(self, method: str, params: Json) -> Request:
        """Create a session, or open a stored one; return the request, or raise `NoResponse`."""
        call = self.connection.send_request(method, params)
        try:
            await self.connection.wait_for_response(call, within_s=self.settings.timeout)
        except NoResponse as silence:
            if self.connection.is_closed:
                raise
            raise NoSessionResponse(str(silence)) from None
        return call

    async def new_session(self, **more: Any) -> str:
        """Return the id of a new session; raise `NotExercised` if none was created."""
        call = await self.open_session("session/new", self.setup_params(**more))
        ident = call.result.get("sessionId") if is_object(call.result) else None
        if isinstance(ident, str):
            return ident
        if call.code == _LOGIN_NEEDED:
            raise LoginRequired("the agent requires a login before it creates a session")
        error = call.response.error if call.response else None
        raise NotExercised(
            f"no session was created: {format_value(error) if error else 'it has no id'}"
        )

    async def reopen_session(self, session: str, *, replay: bool, **more: Any) -> Request:
        """Load or resume a session; raise `NotExercised` if the agent does not support it."""
        if self.version == 1:
            method, what = ("session/load", "load") if replay else ("session/resume", "resume")
            self.require(what)
            return await self.open_session(method, self.setup_params(sessionId=session, **more))
        if replay:
            more["replayFrom"] = {"type": "start"}
        return await self.open_session(
            "session/resume", self.setup_params(sessionId=session, **more)
        )

    async def close_session(self, session: str) -> Request:
        """Close a session; raise `NotExercised` if the agent does not support it."""
        self.require("close")
        return await self.connection.call("session/close", {"sessionId": session})

    # Turns.

    def prompt(self, session: str, *blocks: Json | str, purpose: str = "") -> SentPrompt:
        """Send a prompt."""
        content = [text_block(block) if isinstance(block, str) else block for block in blocks]
        call = self.connection.send_request(
            "session/prompt", {"sessionId": session, "prompt": content}
        )
        return SentPrompt(self, session, call, purpose)

    def prompt_for(self, session: str, purpose: str) -> SentPrompt:
        """Send the prompt of the settings for a purpose; raise `NotExercised` if it is empty."""
        words = self.settings.prompt(purpose).replace(FOLDER, str(self.folder))
        if not words:
            raise NotExercised(f"the settings have no prompt for {purpose}")
        return self.prompt(session, words, purpose=purpose)

    async def run_turn(self, session: str, purpose: str) -> SentPrompt:
        """Send the prompt for a purpose, and return when its turn has ended.

        Raise `NotExercised` if the agent refuses the prompt. If the turn misses its purpose, the
        scenario is not exercised either; what it judges of the turn counts nevertheless.
        """
        prompted = self.prompt_for(session, purpose)
        await prompted.wait_for_end()
        self.require_accepted(prompted)
        self.turns.append(prompted)
        return prompted

    def require_accepted(self, prompted: SentPrompt) -> None:
        """Raise `NotExercised` if a prompt was refused."""
        if prompted.request.response is not None and not prompted.request.ok:
            if prompted.request.code == _LOGIN_NEEDED:
                raise LoginRequired("the agent requires a login before it works on a prompt")
            raise NotExercised(
                f"the prompt was refused: {format_value(prompted.request.response.error)}"
            )

    def cancel(self, session: str) -> Frame:
        """Cancel the turn of a session and its pending permission requests."""
        frame = self.connection.send_notification("session/cancel", {"sessionId": session})
        for call in self.pending_permissions(session):
            self.answer_cancelled(call)
        return frame

    def pending_permissions(self, session: str) -> list[Request]:
        """Return the unanswered permission requests of a session."""
        return self.connection.observer.state.unanswered(
            "agent", "session/request_permission", session
        )

    def updates(self, session: str, *kinds: str) -> list[tuple[Notification, Json]]:
        """Return the updates of a session, only these kinds if any are given."""
        # Scenarios ask after each message: only the new notifications are looked at.
        for note in islice(self.connection.notifications, self._sorted, None):
            self._sorted += 1
            if note.method == "session/update":
                self._updates[note.session_id].append((note, update_of(note)))
        updates = self._updates[session]
        if not kinds:
            return list(updates)
        return [(note, update) for note, update in updates if update.get("sessionUpdate") in kinds]

    async def wait_for_optional(
        self, holds: Callable[[], bool], what: str, *, within_s: float = 0
    ) -> bool:
        """Wait for a condition that may not come true; return whether it did."""
        try:
            await self.connection.wait_until(
                holds, what, within_s=within_s or self.turn_timeout.seconds
            )
        except NoResponse:
            if self.connection.is_closed:
                raise
            return False
        return True

    # Responses to the agent.

    def allow(self, call: Request) -> None:
        """Allow once, or choose the first option."""
        self.choose(call, "allow_once", "allow_always")

    def reject(self, call: Request) -> None:
        """Reject once, or cancel."""
        self.choose(call, "reject_once", "reject_always", otherwise_cancel=True)

    def answer_cancelled(self, call: Request) -> None:
        """Respond with the outcome `cancelled`."""
        self.connection.respond(call, {"outcome": {"outcome": "cancelled"}})

    def leave_open(self, call: Request) -> None:
        """Do not respond."""

    def choose(self, call: Request, *kinds: str, otherwise_cancel: bool = False) -> None:
        """Select an option of one of these kinds."""
        options = call.params.get("options") if is_object(call.params) else None
        known = [option for option in options if is_object(option)] if is_array(options) else []
        for kind in kinds:
            for option in known:
                if option.get("kind") == kind:
                    self.select(call, option.get("optionId"))
                    return
        if otherwise_cancel or not known:
            self.answer_cancelled(call)
        else:
            self.select(call, known[0].get("optionId"))

    def select(self, call: Request, option: Any) -> None:
        """Select an option by its id."""
        self.connection.respond(call, {"outcome": {"outcome": "selected", "optionId": option}})

    def refuse_mcp(self, call: Request) -> None:
        """Answer that there is no such MCP server."""
        self.connection.respond_error(call, -33001, "No such server")

    def accept_elicitation(self, call: Request) -> None:
        """Accept an elicitation; fill in the form."""
        params = call.params if is_object(call.params) else {}
        answer: Json = {"action": "accept"}
        if params.get("mode") == "form":
            answer["content"] = _form_content(params.get("requestedSchema"))
        self.connection.respond(call, answer)

    def _on_request(self, call: Request) -> None:
        match call.method:
            case "session/request_permission":
                self.permission_policy(call)
            case "mcp/message":
                self.mcp_policy(call)
            case "elicitation/create" if self._serves:
                self.elicitation_policy(call)
            case _:
                served = self.version == 1 and self._serves and self._services.serve(call)
                if not served:
                    self.connection.respond_error(call, -32601, "Method not found")

    def _on_notification(self, note: Notification) -> None:
        """Answer requests that the agent cancels."""
        if note.method != "$/cancel_request" or not self.obeys_cancel_request:
            return
        call = self.connection.observer.state.find_request("agent", note.params.get("requestId"))
        if call is None:
            return
        if call.method == "session/request_permission":
            self.answer_cancelled(call)
        elif call.method == "elicitation/create":
            self.connection.respond(call, {"action": "cancel"})


def _form_content(schema: Any) -> Json:
    """Return a valid value for each field of a form."""
    found = schema.get("properties") if is_object(schema) else None
    fields: Json = found if is_object(found) else {}
    return {name: _field_value(field) for name, field in fields.items() if is_object(field)}


def _field_value(field: Json) -> Any:
    if field.get("default") is not None:
        return field["default"]
    titled, named = field.get("oneOf"), field.get("enum")
    consts = [one.get("const") for one in titled if is_object(one)] if is_array(titled) else []
    choices: list[Any] = (named if is_array(named) else []) or consts
    match field.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            return field.get("minimum", 1)
        case "array":
            return []
        case _ if choices:
            return choices[0]
        case _:
            formats = {"email": "a@example.com", "uri": "https://example.com", "date": "2026-01-02"}
            formats["date-time"] = "2026-01-02T03:04:05Z"
            least = field.get("minLength")
            length = min(least, _MAX_TEXT) if isinstance(least, int) else 0
            return formats.get(str(field.get("format")), "Accord".ljust(length, "."))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value that a user would see, and more."""
    if is_object(value):
        for key, inner in value.items():
            if key in ("text", "content", "newText", "title", "rawOutput", "output", "data"):
                yield from (inner,) if isinstance(inner, str) else _texts(inner)
            elif isinstance(inner, dict | list):
                yield from _texts(inner)
    elif is_array(value):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
