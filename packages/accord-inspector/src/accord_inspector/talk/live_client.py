"""The client of a live agent: what the user does on the page, and what the agent asks the user.

A prompt has text, uploaded files, and files by their path. Permissions and elicitations wait for an
answer (`Questions`).
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from accord.client.agent_adapter import AuthMethod, SessionInfo
from accord.client.connect import ConnectedAgent, ConnectOptions
from accord.client.events import (
    AgentTerminal,
    Event,
    TerminalOutputChunk,
)
from accord.client.permissions import Policy
from accord.client.session import ClientSession
from accord.client.turn import ClientTurn
from accord.connection.tasks import discard_with
from accord.errors import AccordError, AuthRequired, RequestError
from accord.text.excerpt import one_line, visible
from accord.types.content import (
    text_of,
)
from accord.types.mcp import McpServer
from accord_inspector.json_http import json_words
from accord_terminal.conversation import ApiError, Questions, prompt_contents
from accord_terminal.toolkit.session_setup import McpFileError, mcp_servers

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
