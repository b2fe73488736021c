"""The Claude Code process of a session: its options, its messages, and its certain end.

`claude_agent_sdk` has the agent, `claude_turn` shows a turn. The process lives as long as the
session is open. It is read all the time, also between turns, so that it never waits for a reader;
when it is closed it is gone after a few seconds, whatever it does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from accord import McpServerHttp, McpServerSse, McpServerStdio, PlanEntry, Session

try:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError
    from claude_agent_sdk.types import ResultMessage, StreamEvent, SystemMessage
except ImportError as error:
    raise ImportError(
        f"{error}; this bridge needs claude-agent-sdk 0.2.188:"
        " pip install 'claude-agent-sdk>=0.2.188'"
    ) from error

log = logging.getLogger("accord.bridges")

CanUseTool = Callable[[str, dict[str, Any], Any], Awaitable[Any]]

_ENVIRONMENT = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}  # it says when it is idle
_MISSED = 200  # messages between two turns that are kept for the next one
_AHEAD = 200  # messages that are read before the turn has shown them
_STOP_S = 4.0  # that a turn has to end after an interrupt
_SOON_S = 0.5  # after a result, for Claude Code to say that it is idle
_LEAVE_S = 1.5  # that the process has to exit by itself, then after a SIGTERM
_STDERR_LINES = 20


STATE = "session_state_changed"


class ClaudeCodeError(Exception):
    """Claude Code has ended, or has reported an error; the text is its own."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status_code = status


class APIConnectionError(ClaudeCodeError):
    """Claude Code cannot reach the API of its model."""


class ConversationLost(ClaudeCodeError):
    """Claude Code does not have the conversation that it is to continue."""


class Conversation:
    """Which conversation of Claude Code a session is, as the session remembers it.

    A copy of a session begins as a fork of the other's conversation, after the last message that
    the copy has.
    """

    def __init__(self, session: Session) -> None:
        kept: Mapping[str, Any] = session.remembered or {}
        self.cost: float = kept.get("cost", 0.0)
        """What the earlier processes of this conversation have cost."""
        self.last: str | None = kept.get("last")
        """The id of the last message."""
        self.tasks: dict[str, PlanEntry] = {
            task_id: PlanEntry(text, status) for task_id, text, status in kept.get("tasks", ())
        }
        """The plan that Claude Code keeps by its tools for tasks, by their ids."""
        self._session_id = session.id
        self._copied: str | None = None
        self.id = str(kept.get("conversation") or uuid.uuid4())
        self.has_begun = bool(kept)
        if kept and kept.get("session") != session.id:
            self._copied, self.id = self.id, str(uuid.uuid4())
            self.cost = 0.0

    def options(self) -> dict[str, Any]:
        """Return the options that make a process continue this conversation."""
        if self._copied is not None:
            return {
                "resume": self._copied, "fork_session": True, "session_id": self.id,
                "resume_session_at": self.last, "continue_conversation": False,
            }  # fmt: skip
        of = {"resume": self.id} if self.has_begun else {"session_id": self.id}
        return {"continue_conversation": False, "resume": None, "session_id": None, **of}

    def renew(self) -> None:
        """Begin another conversation: Claude Code has deleted the files of this one."""
        self.id, self.has_begun, self._copied = str(uuid.uuid4()), False, None

    def begin(self) -> None:
        """Note that the conversation has got a prompt."""
        self.has_begun, self._copied = True, None

    def remembered(self, cost: float) -> dict[str, Any]:
        """Return what the session remembers."""
        return {
            "conversation": self.id,
            "session": self._session_id,
            "last": self.last,
            "cost": self.cost + cost,
            "tasks": [(key, task.content, task.status) for key, task in self.tasks.items()],
        }


def options_for(
    given: ClaudeAgentOptions,
    session: Session,
    conversation: Conversation,
    can_use_tool: CanUseTool,
    **more: Any,
) -> ClaudeAgentOptions:
    """Return the options of a session's process: those given, with what the session adds."""
    servers = {**_servers(given), **more.pop("servers", {}), **_client_servers(session)}
    return replace(
        given,
        cwd=session.cwd,
        add_dirs=[*given.add_dirs, *(f for f in session.directories if f != session.cwd)],
        mcp_servers=servers,
        system_prompt=_system_prompt(given.system_prompt, session),
        env={**_ENVIRONMENT, **given.env},
        include_partial_messages=True,
        forward_subagent_text=True,
        can_use_tool=given.can_use_tool or can_use_tool,
        **conversation.options(),
        **{name: value for name, value in more.items() if value is not None},
    )


def _servers(given: ClaudeAgentOptions) -> dict[str, Any]:
    servers: Any = given.mcp_servers
    if isinstance(servers, dict):
        return servers
    text = str(servers)
    if not text.lstrip().startswith("{"):
        text = Path(text).read_text(encoding="utf-8")
    found = json.loads(text)
    return found.get("mcpServers", found)


def _client_servers(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for server in session.mcp_servers:
        match server:
            case McpServerStdio():
                found[server.name] = {
                    "type": "stdio",
                    "command": server.command,
                    "args": list(server.args),
                    "env": dict(server.env),
                }
            case McpServerHttp() | McpServerSse():
                kind = "http" if isinstance(server, McpServerHttp) else "sse"
                headers = dict(server.headers)
                found[server.name] = {"type": kind, "url": server.url, "headers": headers}
    return found


def _system_prompt(given: Any, session: Session) -> Any:
    prompt = session.system_prompt
    if prompt is None:
        return given
    if prompt.mode == "override":
        return prompt.text
    if given is None or isinstance(given, str):
        return "\n\n".join(filter(None, (given, prompt.text)))
    key = {"preset": "append", "custom": "prompt"}.get(given.get("type"))
    if key is None:
        return given  # a file, which is the agent's own
    return {**given, key: "\n\n".join(filter(None, (given.get(key), prompt.text)))}


class ClaudeProcess:
    """A running Claude Code; `started` makes one."""

    def __init__(self, client: ClaudeSDKClient, servers: object) -> None:
        self.client = client
        self.servers = servers
        """The MCP servers of the client that it was started with."""
        self.info: dict[str, Any] = {}
        self.model: str | None = None
        self.mode: str | None = None
        self.turn: Any = None
        """The turn that is shown, if there is one; it answers requests for permission."""
        self.cost = 0.0
        self.ended = False
        self.state: str | None = None
        """What Claude Code says that it is: `running`, `idle`; None if it does not say it."""
        self._missed: deque[Any] = deque(maxlen=_MISSED)
        self._queue: asyncio.Queue[Any] = asyncio.Queue(_AHEAD)
        self._is_read = False

    async def read(self) -> None:
        """Take messages until the process ends: for the turn, or to show them in the next one."""
        failure: Exception = ClaudeCodeError("Claude Code has ended")
        try:
            async for message in self.client.receive_messages():
                if isinstance(message, SystemMessage) and message.subtype == STATE:
                    self.state = message.data.get("state")
                if self._is_read:
                    await self._queue.put(message)
                elif not isinstance(message, StreamEvent):
                    self._missed.append(message)
        except ClaudeSDKError as error:
            failure = error
        self.ended = True
        if self._is_read:
            await self._queue.put(failure)

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None, None]:
        """Keep the messages for `messages` while the block runs."""
        self._queue = asyncio.Queue(_AHEAD)
        self._is_read = True
        try:
            yield
        finally:
            self._is_read = False
            while not self._queue.empty():  # what waits to be put is not lost
                self._queue.get_nowait()

    def missed(self) -> list[Any]:
        """Return what has come since the last turn, once."""
        found = list(self._missed)
        self._missed.clear()
        return found

    async def send(self, message: dict[str, Any]) -> None:
        """Give it a message of the user."""

        async def one() -> AsyncGenerator[dict[str, Any], None]:
            yield message

        if self.state is not None:
            self.state = "running"
        await self.client.query(one())

    async def next(self, timeout_s: float | None = None) -> Any:
        """Return the next message. Raises what has ended the process, and `TimeoutError`."""
        if self.ended and self._queue.empty():
            raise ClaudeCodeError("Claude Code has ended")
        async with asyncio.timeout(timeout_s):
            message = await self._queue.get()
        if isinstance(message, Exception):
            raise message
        return message

    async def interrupt(self) -> None:
        """Stop what the process works on; one that does not stop in time counts as ended.

        What was said during the turn and not taken in yet is stopped as well.
        """
        try:
            async with asyncio.timeout(_STOP_S):
                await self.client.interrupt()
                soon: float | None = None
                while self.state != "idle":
                    try:
                        message = await self.next(soon)
                    except TimeoutError:
                        await self.client.interrupt()
                        soon = None
                        continue
                    if isinstance(message, ResultMessage):
                        if self.state is None:
                            return
                        soon = _SOON_S
        except Exception as error:  # of the SDK, which raises plain exceptions
            log.warning("! Claude Code does not stop when interrupted", exc_info=error)
            self.ended = True


@asynccontextmanager
async def started(
    make: Callable[[ClaudeAgentOptions], ClaudeSDKClient], options: ClaudeAgentOptions,
    servers: object,
) -> AsyncGenerator[ClaudeProcess, None]:  # fmt: skip
    """Start a process, and end it after the block."""
    lines: deque[str] = deque(maxlen=_STDERR_LINES)
    if options.stderr is None:
        options = replace(options, stderr=lines.append)
    client = make(options)
    process = ClaudeProcess(client, servers)
    process.model, process.mode = options.model, options.permission_mode
    try:
        await client.connect()
    except asyncio.CancelledError:
        await _leave(client)
        raise
    except Exception as error:
        said = "\n".join([str(error), *(line for line in lines if line not in str(error))])
        is_lost = "No conversation found" in said
        raise (ConversationLost if is_lost else ClaudeCodeError)(said) from error
    reading = asyncio.create_task(process.read(), name="accord bridge: Claude Code's messages")
    try:
        process.info = await client.get_server_info() or {}
        yield process
    finally:
        await _leave(client)
        reading.cancel()
        await asyncio.wait([reading], timeout=_LEAVE_S)


async def _leave(client: ClaudeSDKClient) -> None:
    """Disconnect; a process that does not exit is ended by signals."""
    process: Any = getattr(getattr(client, "_transport", None), "_process", None)
    leaving = asyncio.ensure_future(client.disconnect())
    for end in ("terminate", "kill", "kill"):
        await _wait(leaving)
        if leaving.done() or process is None:
            break
        with suppress(ProcessLookupError):
            getattr(process, end)()
    if not leaving.done():
        leaving.cancel()
    elif not leaving.cancelled() and (error := leaving.exception()) is not None:
        log.warning("! disconnecting from Claude Code has failed", exc_info=error)


async def _wait(task: asyncio.Future[Any]) -> None:
    """Wait for the end of a task, also if this one is cancelled."""
    try:
        await asyncio.wait([task], timeout=_LEAVE_S)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_LEAVE_S)
