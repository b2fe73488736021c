"""The client of a live agent: what the user does on the page, and what the agent asks the user.

A prompt has text, uploaded files, and files by their path. Permissions and elicitations wait for an
answer (`Questions`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import mimetypes
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from accord.client.agent_adapter import AuthMethod, SessionInfo
from accord.client.connect import ConnectedAgent, ConnectOptions
from accord.client.elicitation import (
    ElicitationForm,
    FormField,
    FormValues,
    UrlElicitationRequest,
    form_error,
)
from accord.client.events import (
    AgentTerminal,
    Decision,
    Event,
    PermissionRequest,
    TerminalOutputChunk,
)
from accord.client.permissions import Policy, is_distinct
from accord.client.session import ClientSession
from accord.client.turn import ClientTurn
from accord.connection.tasks import discard_with
from accord.errors import AccordError, AuthRequired, RequestError
from accord.local.files import OutsideRoots, Roots, TooLarge
from accord.text.excerpt import one_line, visible
from accord.text.lenient_json import is_array, is_object
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    text_of,
)
from accord.types.mcp import McpServer
from accord_inspector.json_http import ApiError, json_words
from accord_inspector.talk.session_log import bounded, tool_call_json
from accord_terminal.toolkit.session_setup import McpFileError, mcp_servers

MAX_FILES = 20
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_EMBEDDED_BYTES = 1024 * 1024  # of a file by its path; a larger one is linked


async def prompt_contents(
    agent: ConnectedAgent, directories: Sequence[str], body: dict[str, Any]
) -> list[ContentBlock]:
    """Return the content of a prompt; raise `ApiError` for one that cannot be sent.

    A file by its path must be in one of the directories, with symbolic links resolved.
    """
    contents: list[ContentBlock] = []
    text = body.get("text")
    if isinstance(text, str) and text:
        contents.append(text)
    files = body.get("files", [])
    if not is_array(files) or len(files) > MAX_FILES:
        raise ApiError(400, f"files: expected a list of at most {MAX_FILES}")
    for number, file in enumerate(files):
        where = f"files[{number}]"
        if not is_object(file):
            raise ApiError(400, f"{where}: expected an object")
        if "path" in file:
            contents.append(await _by_path(agent, directories, file, where))
        else:
            contents.append(_uploaded(agent, file, where))
    if not contents:
        raise ApiError(400, "text: expected a text or a file")
    return contents


async def _by_path(
    agent: ConnectedAgent, directories: Sequence[str], file: dict[str, Any], where: str
) -> ContentBlock:
    given = str(file["path"])
    roots = Roots(directories)
    path = Path(directories[0], given)  # an absolute path stays
    try:
        resolved, size = await asyncio.to_thread(_resolved, roots, path)
    except OutsideRoots:
        raise ApiError(
            403, f"{where}.path: {one_line(given)} is not in the folder of the session"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ApiError(400, f"{where}.path: {one_line(given)}: {reason}") from None
    mime = mimetypes.guess_type(path.name)[0]
    link = ResourceLink(resolved.as_uri(), path.name, mime_type=mime, size=size)
    if file.get("as") != "content" or not agent.supports_content("resource"):
        return link
    try:
        content = await asyncio.to_thread(roots.read, str(path), max_bytes=MAX_EMBEDDED_BYTES)
    except (TooLarge, UnicodeDecodeError):
        return link
    except OSError as error:
        raise ApiError(400, f"{where}.path: {one_line(given)}: {error.strerror}") from None
    return EmbeddedResource(resolved.as_uri(), content, mime)


def _resolved(roots: Roots, path: Path) -> tuple[Path, int]:
    """Return the real path of a file, and its size."""
    real = Path(roots.resolve(str(path)))
    return real, real.stat().st_size


def _uploaded(agent: ConnectedAgent, file: dict[str, Any], where: str) -> ContentBlock:
    name, mime, data = file.get("name"), file.get("mime"), file.get("data")
    if not isinstance(name, str) or not isinstance(data, str):
        raise ApiError(400, f"{where}: expected `name` and `data`, or `path`")
    mime = mime if isinstance(mime, str) and mime else mimetypes.guess_type(name)[0]
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where}.data: expected Base64") from None
    if len(content) > MAX_FILE_BYTES:
        raise ApiError(413, f"{where}: {one_line(name)} exceeds {MAX_FILE_BYTES >> 20} MB")
    uri = Path("/", name).as_uri().replace("file:///", "attachment:///", 1)
    for kind, block in (("image", ImageContent), ("audio", AudioContent)):
        if mime is not None and mime.startswith(f"{kind}/") and agent.supports_content(kind):
            return block(content, mime)
    if not agent.supports_content("resource"):
        raise ApiError(409, f"{where}: the agent takes no files, only their paths")
    try:
        return EmbeddedResource(uri, content.decode("utf-8"), mime)
    except UnicodeDecodeError:
        return EmbeddedResource(uri, content, mime)


MAX_ENDED = 20  # that are still shown


class Question:
    """One question. `read` returns the answer in the JSON of the page; it raises `ApiError`."""

    def __init__(
        self, number: int, session_id: str | None, shown: dict[str, Any], read: Callable[[Any], Any]
    ) -> None:
        self.number: int = number
        self.session_id: str | None = session_id
        self.shown: dict[str, Any] = shown
        self.read: Callable[[Any], Any] = read
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ended: str | None = None  # why no answer is possible any more

    def json(self) -> dict[str, Any]:
        """Return the question for the page."""
        return {
            "number": self.number,
            "session": self.session_id,
            "ended": self.ended,
            **self.shown,
        }


_NOT_WAITING = "The agent does not wait for the answer any more"
_DISCONNECTED = "The connection to the agent has ended"


class Questions:
    """The questions of a connection, for all pages: the first answer counts.

    The three methods that ask are policies and callbacks of `accord.connect`.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._numbers = itertools.count(1)
        self._open: dict[int, Question] = {}
        self._ended: deque[Question] = deque(maxlen=MAX_ENDED)
        self.has_ended: Callable[[], bool] = lambda: False  # whether the connection has

    def json(self) -> list[dict[str, Any]]:
        """Return the questions that wait, and those that ended without an answer."""
        return [question.json() for question in (*self._ended, *self._open.values())]

    def waiting(self, session_id: str) -> int:
        """Return how many questions of a session wait."""
        return sum(question.session_id == session_id for question in self._open.values())

    def answer(self, number: int, answer: Any) -> None:
        """Answer a question; raise `ApiError` if it does not wait, or for an invalid answer."""
        question = self._open.get(number)
        if question is None or question.answer.done():
            raise ApiError(409, "This question does not wait for an answer any more")
        question.answer.set_result(question.read(answer))

    def disconnected(self, reason: str) -> None:
        """Tell why the questions ended that waited when the connection ended."""
        for question in self._ended:
            if question.ended == _DISCONNECTED:
                question.ended = f"{_DISCONNECTED}: {one_line(reason)}"
        self._changed()

    def dismiss(self, number: int) -> None:
        """Stop showing a question that has ended."""
        for question in list(self._ended):
            if question.number == number:
                self._ended.remove(question)
        self._changed()

    async def ask_permission(self, request: PermissionRequest) -> Decision:
        """Wait until the user chooses an option."""
        offered = request.options

        def read(answer: Any) -> Decision:
            option = answer.get("option") if is_object(answer) else None
            if option is None:
                return "cancel"
            if not isinstance(option, int) or not 0 <= option < len(offered):
                raise ApiError(400, f"option: expected a number from 0 to {len(offered) - 1}")
            return offered[option]

        call = request.tool_call
        shown: dict[str, Any] = {
            "kind": "permission",
            "title": one_line(request.title, 500),
            "description": bounded(request.description or "")["text"],
            "command": None if request.command is None else bounded(request.command),
            "cwd": one_line(request.cwd),
            "call": None if call is None else tool_call_json(call),
            "options": [
                {
                    "name": one_line(option.name, 200),
                    "kind": one_line(option.kind, 60),
                    "ambiguous": not is_distinct(option, offered),
                }
                for option in offered
            ],
        }
        return await self._ask(request.session_id, shown, read)

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Wait until the user fills in a form, or declines."""

        def read(answer: Any) -> FormValues | None:
            values = answer.get("values") if is_object(answer) else None
            if values is None:
                return None
            if not is_object(values):
                raise ApiError(400, "values: expected an object")
            if (wrong := form_error(form, values)) is not None:
                raise ApiError(400, f"values: {wrong}")
            return values

        shown = {
            "kind": "form",
            "title": one_line(form.title or "The agent asks for input", 500),
            "message": bounded(form.message)["text"],
            "description": bounded(form.description or "")["text"],
            "fields": [_field(field) for field in form.fields],
        }
        return await self._ask(form.session_id, shown, read)

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Wait until the user agrees to open a URL, or declines."""

        def read(answer: Any) -> bool:
            return is_object(answer) and answer.get("open") is True

        shown = {
            "kind": "url",
            "title": "The agent asks you to open an address",
            "message": bounded(page.message)["text"],
            "url": visible(page.url),
            "opens": page.url if page.url.lower().startswith(("http://", "https://")) else None,
        }
        return await self._ask(page.session_id, shown, read)

    async def _ask(
        self, session_id: str | None, shown: dict[str, Any], read: Callable[[Any], Any]
    ) -> Any:
        question = Question(next(self._numbers), session_id, shown, read)
        self._open[question.number] = question
        self._changed()
        try:
            return await question.answer
        except asyncio.CancelledError:
            question.ended = _DISCONNECTED if self.has_ended() else _NOT_WAITING
            self._ended.append(question)
            raise
        finally:
            del self._open[question.number]
            self._changed()


def _field(field: FormField) -> dict[str, Any]:
    return {
        "name": field.name,
        "kind": field.kind,
        "title": one_line(field.title, 200),
        "description": bounded(field.description or "")["text"],
        "required": field.required,
        "default": field.default,
        "choices": [
            {
                "value": choice.value,
                "name": one_line(choice.name, 200),
                "description": one_line(choice.description or ""),
            }
            for choice in field.choices
        ],
        "minimum": field.minimum,
        "maximum": field.maximum,
        "format": field.format,
    }


Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

MAX_LISTED = 200  # stored sessions
METHODS = (  # that the page shows buttons for
    "list_sessions",
    "load_session",
    "resume_session",
    "fork_session",
    "close_session",
    "delete_session",
    "logout",
    "steer",
)


class LiveClient:
    """The connection to the agent, its sessions and their turns.

    `changed` is called when what `json` returns has changed, `on_event` with what is not in the
    messages: the output of terminals that run here. By default the agent can read the files in the
    folders of its sessions, and neither write them nor run commands. A change of this applies to
    the next connection, because it is a capability.
    """

    def __init__(
        self,
        cwd: Path,
        command: Sequence[str],
        spawn: Spawn,
        changed: Callable[[], None],
        on_event: Callable[[str, Event], None],
        on_problem: Callable[..., None],
    ) -> None:
        self.cwd: Path = cwd
        self.command: tuple[str, ...] = tuple(command)
        self.questions: Questions = Questions(changed)
        self.agent: ConnectedAgent | None = None
        self.files: Literal["ro", "rw"] | None = "ro"
        self.terminals: bool = False
        self._spawn = spawn
        self._changed = changed
        self._on_event = on_event
        self._on_problem = on_problem
        self._sessions: dict[str, ClientSession] = {}
        self._turns: dict[str, ClientTurn] = {}

    # The connection.

    def options(self) -> ConnectOptions:
        """Return the options of the next connection."""
        return ConnectOptions(
            files=self.files,
            terminals=self.terminals,
            on_elicit_form=self.questions.ask_form,
            on_elicit_url=self.questions.ask_url,
            unstable=True,
            terminal_login=True,
        )

    @property
    def permissions(self) -> Policy:
        """What decides permission requests: the user."""
        return self.questions.ask_permission

    def connected(self, agent: ConnectedAgent) -> None:
        """Use a connection that was opened."""
        self.agent = agent
        connection = agent.remote.connection
        self.questions.has_ended = lambda: connection.has_ended
        self._spawn(self._watch(connection.wait_ended))
        self._changed()

    async def _watch(self, wait_ended: Callable[[], Awaitable[Exception | None]]) -> None:
        reason = await wait_ended()
        self.questions.disconnected("it was closed" if reason is None else str(reason))

    def disconnected(self) -> None:
        """Forget the connection, with its sessions."""
        self.agent = None
        self._sessions.clear()
        self._turns.clear()
        self._changed()

    def set_access(self, files: object, terminals: object) -> None:
        """Set what the agent may use after the next start; raise `ApiError`."""
        allowed: dict[object, Literal["ro", "rw"] | None] = {None: None, "ro": "ro", "rw": "rw"}
        if files not in allowed or not isinstance(terminals, bool):
            raise ApiError(400, 'Expected files: null, "ro" or "rw", and terminals: true or false')
        self.files, self.terminals = allowed[files], terminals
        self._changed()

    def json(self) -> dict[str, Any]:
        """Return the state of the connection for the page."""
        agent = self.agent
        value: dict[str, Any] = {
            "cwd": str(self.cwd),
            "access": {"files": self.files, "terminals": self.terminals},
            "questions": self.questions.json(),
            "open": list(self._sessions),
            "agent": None,
        }
        if agent is not None:
            value["agent"] = {
                "name": one_line(agent.info.title or agent.info.name, 200),
                "version": one_line(agent.info.version, 60),
                "protocol": agent.version,
                "supports": [name for name in METHODS if _supports(agent, name)],
                "content": [k for k in ("image", "audio", "resource") if agent.supports_content(k)],
                "authMethods": [
                    {
                        "id": method.id,
                        "name": one_line(method.name, 200),
                        "description": one_line(method.description or ""),
                        "command": self._login_command(method) if method.terminal else None,
                    }
                    for method in agent.auth_methods
                ],
            }
        return value

    def _login_command(self, method: AuthMethod) -> str:
        """Return the command line that logs in: this page has no terminal for its questions."""
        words = [shlex.quote(f"{name}={value}") for name, value in method.env]
        prefix = ["env", *words] if words else []
        return visible(" ".join([*prefix, shlex.join([*self.command, *method.args])]))

    def session(self, session_id: object) -> ClientSession:
        """Return an open session; raise `ApiError` if it is not open."""
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            raise ApiError(409, f"The session {one_line(str(session_id), 100)} is not open")
        return session

    def _connected(self) -> ConnectedAgent:
        if self.agent is None:
            raise ApiError(409, "The agent is not running: start it again")
        return self.agent

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a request of the page until it ends, also if the page does not wait for it.

        Errors of the agent become `ApiError`.
        """
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                result = await work
            except (AccordError, ApiError, OSError, ValueError) as error:
                if not outcome.done():
                    outcome.set_exception(_api_error(error))
                    outcome.exception()  # the page may have gone
            else:
                if not outcome.done():
                    outcome.set_result(result)
            finally:
                outcome.cancel()

        task = self._spawn(run())
        discard_with(task, work)
        task.add_done_callback(lambda _: outcome.cancel())  # cancelled before its first step
        return await asyncio.shield(outcome)

    # Sessions.

    async def new_session(self, body: Mapping[str, Any]) -> str:
        """Open a new session; return its id."""
        session = await self._connected().new_session(
            self._folder(body), mcp_servers=_servers(body)
        )
        return self._opened(session)

    async def open_session(self, how: str, body: Mapping[str, Any]) -> str:
        """Load, resume or fork a session; return the id of the open one."""
        agent, session_id = self._connected(), _text(body, "session")
        cwd, servers = self._folder(body), _servers(body)
        if how == "fork":
            session = await agent.fork_session(session_id, cwd, mcp_servers=servers)
        else:
            session = await agent.load_session(
                session_id, cwd, mcp_servers=servers, replay=how == "load"
            )
        return self._opened(session)

    async def list_sessions(self) -> list[dict[str, Any]]:
        """Return the stored sessions, the newest first if they have times."""
        found: list[SessionInfo] = []
        async for info in self._connected().list_sessions():
            found.append(info)
            if len(found) >= MAX_LISTED:
                break
        found.sort(key=lambda info: info.updated_at or "", reverse=True)
        return [
            {
                "id": info.id,
                "label": one_line(info.title or info.id, 200),
                "cwd": info.cwd,
                "updatedAt": info.updated_at,
            }
            for info in found
        ]

    async def close_session(self, session_id: str, *, delete: bool) -> None:
        """Close a session, or delete a stored one."""
        agent = self._connected()
        if delete:
            await agent.delete_session(session_id)
        else:
            await self.session(session_id).close()
        self._sessions.pop(session_id, None)
        self._changed()

    def _opened(self, session: ClientSession) -> str:
        self._sessions[session.id] = session
        self._spawn(self._follow(session))
        self._changed()
        return session.id

    async def _follow(self, session: ClientSession) -> None:
        """Pass on the output of terminals between turns."""
        with suppress(AccordError):
            async with session.events() as events:
                async for event in events:
                    self._show(session.id, event)

    def _show(self, session_id: str, event: Event) -> None:
        is_local = self.agent is not None and self.agent.version == 1
        if is_local and isinstance(event, AgentTerminal | TerminalOutputChunk):
            self._on_event(session_id, event)

    def _folder(self, body: Mapping[str, Any]) -> Path:
        given = body.get("cwd")
        folder = self.cwd if not isinstance(given, str) or not given else self.cwd / given
        if not folder.is_dir():
            raise ApiError(400, f"cwd: {one_line(str(folder))} is not a folder")
        return folder

    # Turns.

    async def prompt(self, body: Mapping[str, Any]) -> None:
        """Send a prompt; return when it was sent."""
        session = self.session(body.get("session"))
        contents = await prompt_contents(self._connected(), session.directories, dict(body))
        turn = session.prompt(*contents)
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._spawn(self._turn(session, turn, started))
        await started

    async def steer(self, body: Mapping[str, Any]) -> dict[str, str]:
        """Say something in the running turn; return its outcome, who holds it, and why."""
        session = self.session(body.get("session"))
        turn = self._turns.get(session.id)
        if turn is None:
            raise ApiError(409, "No turn is running in this session: send it as a prompt")
        contents = await prompt_contents(self._connected(), session.directories, dict(body))
        steered = await turn.steer(*contents)
        return {"outcome": steered.outcome, "by": steered.by, "reason": steered.reason}

    async def _turn(
        self, session: ClientSession, turn: ClientTurn, started: asyncio.Future[None]
    ) -> None:
        try:
            async with turn:
                self._turns[session.id] = turn
                started.set_result(None)
                async for event in turn:
                    self._show(session.id, event)
        except AccordError as error:
            if not started.done():
                started.set_exception(error)
            elif not isinstance(error, RequestError) and self.agent is not None:
                self._on_problem(session.id, str(error))  # the messages do not show it
        finally:
            if self._turns.get(session.id) is turn:
                del self._turns[session.id]
            for unsent in turn.unsent:
                text = f"Not run, because the turn ended first: {text_of(unsent)}"
                self._on_problem(session.id, text, is_of_message=False)
            started.cancel()

    async def cancel(self, session_id: object) -> None:
        """Cancel the turn of a session."""
        session = self.session(session_id)
        turn = self._turns.get(session.id)
        await (session.cancel() if turn is None else turn.cancel())

    async def cancel_tool_call(self, body: Mapping[str, Any]) -> None:
        """Cancel one tool call."""
        await self.session(body.get("session")).cancel_tool_call(_text(body, "call"))

    async def set_option(self, body: Mapping[str, Any]) -> None:
        """Set a config option, such as the mode or the model."""
        value = body.get("value")
        if not isinstance(value, str | bool):
            raise ApiError(400, "value: expected a string or a boolean")
        await self.session(body.get("session")).set_option(_text(body, "option"), value)

    # Login.

    async def authenticate(self, method_id: str) -> None:
        """Log in by an auth method that the agent runs."""
        await self._connected().authenticate(method_id)

    async def logout(self) -> None:
        """Log out."""
        await self._connected().logout()


def _supports(agent: ConnectedAgent, method: str) -> bool:
    try:
        return agent.supports(method)
    except ValueError:
        return False


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise ApiError(400, f"{key}: expected a string")
    return value


def _servers(body: Mapping[str, Any]) -> tuple[McpServer, ...]:
    text = body.get("mcpServers")
    if not isinstance(text, str) or not text.strip():
        return ()
    try:
        return mcp_servers(text, "mcpServers")
    except McpFileError as error:
        raise ApiError(400, str(error)) from None


def _api_error(error: Exception) -> ApiError:
    match error:
        case ApiError():
            return error
        case AuthRequired():
            return ApiError(409, f"The agent requires a login: {error}")
        case RequestError():
            return ApiError(502, f"The agent refused: {error}")
        case _:
            return ApiError(409, json_words(one_line(str(error) or type(error).__name__)))
