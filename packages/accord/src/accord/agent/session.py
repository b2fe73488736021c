"""What the methods of an agent receive: turns, sessions, tool calls, subagents and the client.

All of them are thin: a `Toolbox`, which is imported with the first session, does the work.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from accord.agent.actions import SessionActions, ToolCallActions
from accord.agent.updates import (
    MessageUpdate,
    Update,
)
from accord.agent.work import SteeringMessage, TurnState, current_turn
from accord.text.excerpt import excerpt
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    require_content,
    text_of,
)
from accord.types.mcp import McpServer
from accord.types.must_await import (
    must_await,
)
from accord.types.session import (
    AvailableCommand,
    BooleanOption,
    Implementation,
    SelectOption,
    SessionOption,
    StopReason,
    SystemPrompt,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation, ToolKind
from accord.types.validation import require_type, require_types, type_error
from accord.version import ProtocolVersion
from accord.wire.base import UNSET

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.files_and_terminals import CommandResult, SessionFiles
    from accord.agent.session_core import SessionCore, SessionState
    from accord.agent.subagent import SubagentCore
    from accord.agent.toolbox import Toolbox
    from accord.mcp.connections import McpConnections


class ToolCallHandle(ToolCallActions):
    """A tool call, to enter with `async with`.

    `edit`, `delete` and `run` show the user what will be done, ask for permission, and do it.
    A call is pending until something happens in it, then in progress. Leaving the block completes
    it; an exception fails it and a cancel cancels it. It also ends as cancelled if permission
    was denied and nothing else was done. A `cancellable` one can be cancelled while the
    turn continues: leaving the block then raises `WorkCancelled`.
    """

    def __init__(
        self,
        session: Session,
        core: SessionCore,
        turn: TurnState | None,
        title: str,
        **details: Any,
    ) -> None:
        super().__init__(core, turn, title, **details)
        self.session: Session = session
        """The session of the tool call."""


class WorkActions(SessionActions):
    """What a turn and a session can do: all of `SessionActions`, tool calls and subagents."""

    session: Session

    def _turn_here(self) -> TurnState | None:
        return self._core.turn_here()

    @property
    def files(self) -> SessionFiles:
        """The files of the session."""
        return self.session.files

    def tool(
        self,
        title: str,
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | ToolCallLocation] = (),
        raw_input: Any = None,
        cancellable: bool = False,
    ) -> ToolCallHandle:
        """Return a tool call to enter: shown as pending, and at the end with its final status.

        `name` is the tool's name in programs, `locations` are the absolute paths it works on.
        The user of version 2 can cancel a `cancellable` one individually: this raises
        `WorkCancelled`.
        """
        return ToolCallHandle(
            self.session,
            self._core,
            self._turn_here(),
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=cancellable,
        )

    @must_await("turn")
    async def run_in_background(
        self,
        title: str,
        work: Callable[[ToolCallHandle], Awaitable[object]],
        *,
        kind: ToolKind = "other",
        name: str | None = None,
        locations: Iterable[str | ToolCallLocation] = (),
        raw_input: Any = None,
    ) -> ToolCallHandle:
        """Start work in a tool call of its own, which continues after the turn.

        Returns the call once it is shown. Closing the session cancels the work, and so does
        `call.cancel()`. A cancel of the turn does not: the user of version 2 sees the work and
        can cancel each piece. In version 1 the user cannot, so there a cancel of the turn
        cancels the work, too (R-BGW-08).
        """
        if not callable(work):
            raise TypeError(f"run_in_background(work=…): expected a function, got {work!r}")
        core = self._core
        call = ToolCallHandle(
            self.session,
            core,
            None,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            cancellable=True,
        )
        await core.background.run(call, work, lambda: core.client_adapter.is_closed)
        return call

    @must_await("turn")
    async def edit(self, path: str, text: str) -> bool:
        """Give a file this text if the user allows it, in a tool call of its own.

        Returns whether it was done; see `ToolCallHandle.edit`.
        """
        require_type("edit(path=…)", path, str)
        async with self._tool_for("Edit", path, "edit") as call:
            return await call.edit(path, text)

    @must_await("turn")
    async def delete(self, path: str) -> bool:
        """Delete a file if the user allows it, in a tool call of its own.

        Returns whether it was done; see `ToolCallHandle.delete`.
        """
        require_type("delete(path=…)", path, str)
        async with self._tool_for("Delete", path, "delete") as call:
            return await call.delete(path)

    @must_await("turn")
    async def run(
        self,
        *argv: str,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float | None = None,
    ) -> CommandResult | None:
        """Run a command if the user allows it, in a tool call of its own.

        The call fails if the command does. Returns None if it was not allowed; see
        `ToolCallHandle.run`.
        """
        require_types("run(argv=…)", argv, str)
        async with self.tool(shlex.join(argv) or "Run", kind="execute") as call:
            result = await call.run(*argv, cwd=cwd, env=env, timeout_s=timeout_s)
            if result is not None and not result.ok:
                await call.fail()
            return result

    def _tool_for(self, verb: str, path: str, kind: ToolKind) -> ToolCallHandle:
        """Return a tool call whose title has the path, relative to the working directory."""
        shown = path.removeprefix(self._core.cwd.rstrip(os.sep) + os.sep)
        return self.tool(f"{verb} {shown}", kind=kind, locations=[self.files.absolute(path)])

    def subagent(
        self,
        title: str,
        *,
        description: str | None = None,
        cwd: str | None = None,
        additional_directories: Sequence[str] | None = None,
        cancellable: bool = False,
    ) -> SubagentHandle:
        """Return a session inside this one, to enter, in which other work is shown apart.

        It works in the directories of this one unless others are given. The user can cancel a
        `cancellable` one individually: leaving the block then raises `WorkCancelled`. It is
        shown as a tool call with the subagent's messages unless the agent is unstable and,
        in version 1, the client supports subagents.
        """
        require_type("subagent(title=…)", title, str)
        require_type("subagent(description=…)", description, str, NoneType)
        require_type("subagent(cwd=…)", cwd, str, NoneType)
        if additional_directories is not None:
            require_types("subagent(additional_directories=…)", additional_directories, str)
        core = self._toolbox.subagent(
            self._core,
            self._turn_here(),
            title,
            description=description,
            cwd=cwd,
            additional_directories=additional_directories,
            cancellable=cancellable,
        )
        return SubagentHandle(core, self.session, self._toolbox)

    @must_await("turn")
    async def send_session_message(self, recipient: Session, *content: ContentBlock) -> None:
        """Show a message from this session to another, in the transcripts of both.

        The recipient is a subagent, or the session that this subagent is in. Clients that do
        not support subagents receive nothing.
        """
        if not isinstance(recipient, Session):  # pyright: ignore[reportUnnecessaryIsInstance]  # e.g. a turn
            raise type_error("send_session_message(recipient=…)", recipient, Session)
        for part in content:
            require_content("send_session_message(content=…)", part)
        await self._toolbox.send(self._core, recipient._core, content)  # noqa: SLF001  # a class of this module


class Session(WorkActions):
    """One session with one client."""

    def __init__(
        self,
        core: SessionCore,
        client: ConnectedClient,
        agent: object,
        toolbox: type[Toolbox],
    ) -> None:
        self._core = core
        self._toolbox = toolbox
        self.session: Session = self
        """The session itself: a turn and a session have the same methods."""
        self.id: str = core.id
        """The id of the session."""
        self.cwd: str = core.cwd
        """The working directory of the session, an absolute path."""
        self.directories: tuple[str, ...] = core.directories
        """The directories that files may be in: `cwd` and the additional ones."""
        self.client = client
        """The client that the session is open in."""
        self.agent = agent
        """The agent that serves the session."""
        self.data: dict[str, Any] = {}
        """Data of your own, which lasts as long as the session is open."""
        self._files: SessionFiles | None = None

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if core.closed else "running" if core.turn_queue else core.state
        return f"<Session {excerpt(self.id, 60)!r} in {excerpt(self.cwd)!r}, {state}>"

    @property
    def title(self) -> str | None:
        """The title of the session."""
        return self._core.title

    @property
    def mcp_servers(self) -> tuple[McpServer, ...]:
        """The MCP servers that the client wants the agent to use; see `connect_mcp`."""
        return self._core.mcp_servers

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt of the client, if it has sent one (unstable)."""
        return self._core.system_prompt

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._core.closed

    @property
    def state(self) -> SessionState:
        """What the agent does in this session."""
        return self._core.state

    @property
    def files(self) -> SessionFiles:
        """The files of the session."""
        if self._files is None:
            self._files = self._toolbox.files(self._core)
        return self._files

    @must_await("session")
    async def connect_mcp(self) -> McpConnections:
        """Connect to the MCP servers of the session and return the connections, by name.

        They stay connected until the session closes; a lost one is connected again. `failed` has
        the servers that cannot be used. Raises `ImportError` without the library `mcp`.
        """
        return await self._core.connect_mcp()

    @property
    def remembered(self) -> Any:
        """What `remember` was last given, as JSON; None before. Do not change it."""
        return self._core.remembered

    @must_await("session")
    async def remember(self, value: Any) -> None:
        """Store what you need to continue the session, such as the messages of your model.

        `remembered` returns it, also in a later process if the agent has a store, and in a copy
        of the session. It is deleted with the session. The client does not see it. If both are
        lists, only the items from the first difference on are written. Raises `TypeError` for
        what JSON cannot hold.
        """
        await self._core.remember(value)

    async def history(self) -> list[Update]:
        """Return what was said and done, each thing once; nothing without a store."""
        return await self._core.history()

    @property
    def options(self) -> tuple[SessionOption, ...]:
        """The config options."""
        return self._core.options

    @property
    def commands(self) -> tuple[AvailableCommand, ...]:
        """The commands that the user can type after a slash."""
        return self._core.commands

    @property
    def mode(self) -> str | None:
        """The value of the option whose category is `mode`."""
        return self._core.mode

    def option(self, option_id: str) -> str | bool:
        """Return the value of a config option; raise KeyError for an unknown one."""
        return self._core.option(option_id).value

    @must_await("session")
    async def set_title(self, title: str | None) -> None:
        """Set the title of the session, or remove it; a title that the user has set stays."""
        require_type("title", title, str, NoneType)
        await self._core.set_title(title)

    @must_await("session")
    async def set_options(self, options: Iterable[SessionOption]) -> None:
        """Replace all config options; one of category `mode` defines the modes."""
        checked = require_types("set_options(options=…)", options, SelectOption, BooleanOption)
        await self._core.set_options(tuple(checked))

    @must_await("session")
    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of a config option and send it to the client."""
        await self._core.set_option(option_id, value)


class SubagentHandle(Session):
    """A session inside another one, to enter; it shows and asks as turns do.

    `stop_reason` and `token_usage` are sent at its end. What the user always allows in the
    session applies to it, too.
    """

    def __init__(self, core: SubagentCore, parent: Session, toolbox: type[Toolbox]) -> None:
        super().__init__(core, parent.client, parent.agent, toolbox)
        self._subagent = core
        self.parent = parent
        """The session that started this one."""
        self.description: str | None = core.description
        """What the subagent does."""
        self.cancellable: bool = core.cancellable
        """Whether the user can cancel the subagent."""
        self.stop_reason: StopReason = "end_turn"
        """Why the subagent ended, to send with its end."""
        self.token_usage: TokenUsage | None = None
        """The tokens that the subagent used, to send with its end."""

    async def __aenter__(self) -> SubagentHandle:
        await self._subagent.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self._subagent.leave(kind, error, where, self.stop_reason, self.token_usage)

    @must_await("subagent")
    async def connect_mcp(self) -> McpConnections:
        """Return the connections of the session that the subagent is in."""
        return await self.parent.connect_mcp()

    @property
    def is_in_background(self) -> bool:
        """Whether it works outside any turn and tool call of the session that it is in."""
        return self._subagent.is_in_background

    def cancel(self) -> None:
        """Cancel the block, if it is `cancellable` (R-SUBAG-05)."""
        self._subagent.cancel()


class ConnectedClient:
    """The client of a connection: its version, capabilities, sessions and extensions."""

    def __init__(
        self,
        adapter: Callable[[], ClientAdapter],
        sessions: Mapping[str, Session],
        principal: str | None = None,
    ) -> None:
        self._adapter = adapter
        self.sessions = sessions
        self.principal = principal
        """Who has logged in, on a server with several principals; None otherwise."""

    @property
    def version(self) -> ProtocolVersion:
        """The protocol version that it speaks."""
        return self._adapter().version

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it has sent them."""
        return self._adapter().client_info

    @property
    def reads_files(self) -> bool:
        """Whether it serves the text files of its editor, unsaved changes included."""
        return self._adapter().reads_files

    @property
    def writes_files(self) -> bool:
        """Whether it writes text files for the agent."""
        return self._adapter().writes_files

    @property
    def capabilities(self) -> v1.ClientCapabilities | v2.ClientCapabilities:
        """Its capabilities, in its version's type; extensions are in `meta` (R-EXT-08)."""
        return self._adapter().capabilities

    async def call_extension(self, method: str, params: Any = UNSET) -> Any:
        """Send a request whose method begins with an underscore; return its result as JSON.

        Raises `RequestError` for an error response: -32601 if it does not support the method.
        """
        return await self._adapter().call_extension(method, params)

    async def notify_extension(self, method: str, params: Any = UNSET) -> None:
        """Send a notification whose method begins with an underscore."""
        await self._adapter().notify_extension(method, params)


PartT = TypeVar("PartT")


class Turn(WorkActions):
    """One prompt that the agent works on, with methods for what the agent shows and asks."""

    def __init__(
        self,
        session: Session,
        core: SessionCore,
        state: TurnState,
        toolbox: type[Toolbox],
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.session = session
        """The session of the turn."""
        self.content = content
        """The prompt as the user sent it."""
        self.meta = meta
        """The `_meta` of the prompt."""
        self.end_meta: dict[str, Any] | None = None
        """The `_meta` to send with the turn's end."""
        self.token_usage: TokenUsage | None = None
        """The tokens that the turn used, to send with its end (unstable)."""
        self._core = core
        self._toolbox = toolbox
        self._state = state

    def __repr__(self) -> str:
        over, cancelled = self._state.is_over, self._state.cancelled
        state = "over" if over else "cancelled" if cancelled else "running"
        session = excerpt(self.session.id, 60)
        return f"<Turn of session {session!r}, {state}: {excerpt(self.text, 60)!r}>"

    def _turn_here(self) -> TurnState | None:
        return current_turn.get(self._state)

    # The prompt.

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources are written as Markdown."""
        return text_of(self.content)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """The images of the prompt."""
        return self._parts(ImageContent)

    @property
    def audio(self) -> tuple[AudioContent, ...]:
        """The audio of the prompt."""
        return self._parts(AudioContent)

    @property
    def resources(self) -> tuple[EmbeddedResource, ...]:
        """The resources of the prompt that contain their content."""
        return self._parts(EmbeddedResource)

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resources of the prompt that the agent has to read itself."""
        return self._parts(ResourceLink)

    def _parts(self, kind: type[PartT]) -> tuple[PartT, ...]:
        return tuple(part for part in self.content if isinstance(part, kind))

    def continued(self, content: Sequence[ContentBlock]) -> Turn:
        """Return the same turn with what the user has said later as its prompt."""
        turn = Turn(self.session, self._core, self._state, self._toolbox, tuple(content))
        turn.token_usage, turn.end_meta = self.token_usage, self.end_meta
        return turn

    # What the user says while the agent works.

    async def steering(self) -> AsyncGenerator[SteeringMessage]:
        """Yield what the user says from now on, until the turn ends; `Agent.steering` is needed.

            async for message in turn.steering():
                plan.append(message.text)

        Each message is given once: here, or by `take_steering`. One that was not taken when the
        handler returns is a further prompt of the same turn.
        """
        while (message := await self._state.steering.next()) is not None:
            yield message

    def add_steering(self, message: SteeringMessage) -> None:
        """Give the turn a message, which `steering` or `take_steering` returns."""
        self._state.steering.add(message)

    def take_steering(self) -> list[SteeringMessage]:
        """Return what the user has said since the last call, to be read between two steps."""
        return self._state.steering.take()

    # Where it runs.

    @property
    def client(self) -> ConnectedClient:
        """The client that sent the prompt: its version, capabilities and extensions."""
        return self.session.client

    async def history(self) -> list[Update]:
        """Return what was said and done before this prompt; nothing without a store."""
        updates = await self._core.history()
        state = self._state
        # Of a message that was said meanwhile: also what was done between, and not those that wait.
        unheard = {state.prompt_id, *state.steering.waiting()}
        before: list[Update] = []
        for update in updates:
            if not isinstance(update, MessageUpdate) or update.message_id not in unheard:
                before.append(update)
            elif update.message_id == state.message_id:
                break
        return before

    # Its end.

    @property
    def cancelled(self) -> bool:
        """Whether the turn is cancelled."""
        return self._state.cancelled

    def cancel(self) -> None:
        """Cancel the turn: its stop reason is `cancelled`, however its handler ends."""
        self._state.cancel()
