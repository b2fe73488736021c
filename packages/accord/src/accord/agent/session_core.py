"""The state and the output of a session, shared by turns, tool calls and subagents."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from accord.agent.background import Background, OpenSubagent, OpenToolCall
from accord.agent.batched_output import BatchedOutput
from accord.agent.client_adapter import ClientAdapter, mode_of
from accord.agent.stored_output import StoredOutput, UpdateWriter
from accord.agent.text_stream import TextStream
from accord.agent.turn_state import TurnState, current_turn
from accord.agent.updates import MessageRole, MessageUpdate, OptionsUpdate, TitleUpdate, Update
from accord.errors import InvalidParams, LocalProtocolError
from accord.types.content import ContentBlock, require_content
from accord.types.mcp import McpServer
from accord.types.session import AvailableCommand, SelectOption, SessionOption, SystemPrompt

if TYPE_CHECKING:
    from accord.mcp.consumer_connections import McpConnections


SessionState: TypeAlias = Literal["idle", "running", "requires_action"]


class SessionCore:
    """One session with one client: ids, settings, stored and sent updates, open work.

    `decide_permission` gets a tool call and decides on it, or returns None. `all_subagents` are
    those of the connection, by id. `writer` stores updates before they are sent and `read_history`
    returns the stored ones; both are None for an agent without a store. `first_number` is where
    generated ids start.
    """

    def __init__(
        self,
        session_id: str,
        client_adapter: ClientAdapter,
        decide_permission: Callable[[Any], Awaitable[bool | None]],
        all_subagents: dict[str, SessionCore],
        *,
        cwd: str,
        directories: Sequence[str],
        mcp_servers: Sequence[McpServer] = (),
        make_mcp_connections: Callable[[SessionCore], McpConnections] | None = None,
        system_prompt: SystemPrompt | None = None,
        first_number: int = 0,
        writer: UpdateWriter | None = None,
        read_history: Callable[[], Awaitable[list[Update]]] | None = None,
    ) -> None:
        self.id = session_id
        self.client_adapter = client_adapter
        self.decide_permission = decide_permission
        self.all_subagents = all_subagents
        self.cwd = cwd
        self.directories: tuple[str, ...] = tuple(directories)
        self.mcp_servers: tuple[McpServer, ...] = tuple(mcp_servers)
        self._make_mcp_connections = make_mcp_connections
        self._mcp_connections: McpConnections | None = None  # from `connect_mcp` on
        self.system_prompt = system_prompt
        self.title: str | None = None
        self.title_set_by_user = False
        self.options: tuple[SessionOption, ...] = ()
        self.commands: tuple[AvailableCommand, ...] = ()
        self.is_open = False  # the client knows the session
        self.closed = False
        # What the user always allows or rejects: name, kind and the words of a command.
        self.permission_memory: dict[tuple[str, ...], bool] = {}
        self.turn_queue: list[TurnState] = []  # the first runs, the others wait
        self.open_tool_calls: dict[str, OpenToolCall] = {}
        self.subagents: list[OpenSubagent] = []  # that have not ended
        self.not_awaited: list[str] = []  # calls that were dropped without `await`
        self._output = None if writer is None else _output_of(writer)
        self._read_history = read_history
        self._count = first_number
        self._role: MessageRole | None = None
        self._message_id = ""
        self._chunks = 0  # of the current message
        # Sends text of the current message; None if `add_to_message` has to.
        self.stream: TextStream | None = None
        self._waiting = 0  # requests to the user that a turn waits for
        self._state: SessionState = "idle"

    @property
    def is_stored(self) -> bool:
        """Whether the updates are stored."""
        return self._output is not None

    @cached_property
    def background(self) -> Background:
        """The background work."""
        return Background(self.open_tool_calls, self.subagents)

    def set_client_adapter(self, adapter: ClientAdapter) -> None:
        """Send by another adapter from now on."""
        self.client_adapter: ClientAdapter = adapter
        self.end_message()

    def close(self) -> None:
        """Refuse updates from now on."""
        self.closed: bool = True
        self.stream = None

    async def connect_mcp(self) -> McpConnections:
        """Connect to the MCP servers that are not connected; see `Session.connect_mcp`."""
        self._check_open()
        if self._mcp_connections is None:
            assert self._make_mcp_connections is not None, "subagents use those of the session"
            self._mcp_connections = self._make_mcp_connections(self)
        await self._mcp_connections.connect()
        return self._mcp_connections

    async def set_mcp_servers(self, servers: Sequence[McpServer]) -> None:
        """Use other MCP servers: the client has loaded the open session with others."""
        if tuple(servers) == self.mcp_servers:
            return
        self.mcp_servers = tuple(servers)
        connections, self._mcp_connections = self._mcp_connections, None
        if connections is not None:
            await connections.aclose()

    async def disconnect_mcp(self) -> None:
        """Disconnect from the MCP servers."""
        if self._mcp_connections is not None:
            await self._mcp_connections.aclose()

    async def release(self) -> None:
        """Store what was published before `close`, and let another process open the session."""
        if self._output is not None:
            await self._output.release()

    # Updates.

    def next_id(self, kind: str) -> str:
        """Return an id that nothing else in this session has."""
        self._count += 1
        return f"{kind}-{self._count}"

    def add_to_message(
        self, role: MessageRole, content: ContentBlock, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Append to the current message of a role, or start one if another role wrote last."""
        if role is not self._role:
            self._role = role
            self._message_id = self.next_id("message")
            self.stream = None
            self._chunks = 0
        self._chunks += 1
        send = self.client_adapter.send_message_chunk
        if self._output is None and not self.closed:  # the coroutine of `_publish` would only wait
            if self._chunks == 2:  # there are likely to be more
                self.stream = self.client_adapter.text_stream(self.id, role, self._message_id)
            return send(self.id, role, self._message_id, content, meta)
        require_content("content", content)  # before it is stored
        return self._publish(
            MessageUpdate(role, self._message_id, (content,)),
            partial(send, self.id, role, self._message_id, content, meta),
        )

    def end_message(self) -> None:
        """Let the next chunk start a new message."""
        self._role = None
        self.stream = None

    async def publish(self, update: Update) -> None:
        """Store and send an update."""
        await self._publish(update, partial(self.client_adapter.send_update, self.id, update))

    async def _publish(self, update: Update, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Store an update, then call `send`; raise `LocalProtocolError` if it is closed."""
        self._check_open()
        if self._output is None:
            await send()
        else:
            await self._output.publish(update, send)

    @asynccontextmanager
    async def hold_updates(self) -> AsyncGenerator[None, None]:
        """Hold back other updates during the block, so that nothing interrupts a replay."""
        if self._output is None:
            yield
            return
        async with self._output.held():
            yield

    async def store_update(self, update: Update) -> None:
        """Store an update; raise `LocalProtocolError` if the session is closed."""
        self._check_open()
        if self._output is not None:
            await self._output.store(update)

    def _check_open(self) -> None:
        if self.closed:
            raise LocalProtocolError(f"Session {self.id} is closed")

    async def flush(self) -> None:
        """Wait until the published updates are sent: a message that follows may refer to them."""
        if self._output is not None:
            await self._output.flush()

    async def history(self) -> list[Update]:
        """Return the stored updates, collapsed; nothing without a store."""
        if self._read_history is None:
            return []
        await self.flush()
        return await self._read_history()

    async def set_title(self, title: str | None) -> None:
        """Set the title, unless the user has set it."""
        if self.title_set_by_user:  # R-TITLE-05: the user's title stays
            return
        self.title = title
        if self.is_open:
            await self.publish(TitleUpdate(title))

    # Config options.

    @property
    def mode(self) -> str | None:
        """The value of the option whose category is `mode`."""
        option = mode_of(self.options)
        return None if option is None else option.value

    def option(self, option_id: str) -> SessionOption:
        """Return a config option; raise KeyError for an unknown one."""
        for option in self.options:
            if option.id == option_id:
                return option
        raise KeyError(option_id)

    async def set_options(self, options: tuple[SessionOption, ...]) -> None:
        """Replace all config options; raise ValueError for a value that an option does not have."""
        for option in options:
            if isinstance(option, SelectOption):
                values = [choice.value for choice in option.choices]
                if option.value not in values or len(set(values)) != len(values):  # R-CONF-17
                    raise ValueError(f"{option.id}: {option.value!r} is not one of {values}")
        previous_mode = self.mode
        self.options = options
        if self.is_open:
            await self.publish(OptionsUpdate(options, self.mode != previous_mode))

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of a config option."""
        changed = _with_value(self.option(option_id), value)
        await self.set_options(tuple(o if o.id != option_id else changed for o in self.options))

    def set_option_without_update(self, option_id: str, value: str | bool) -> None:
        """Change a value without an update; ignore an option that the agent has removed."""
        self.options = tuple(
            _with_value(option, value) if option.id == option_id else option
            for option in self.options
        )

    def restore_options(self, stored: Iterable[SessionOption]) -> None:
        """Apply the stored values of options that still exist and still have these values."""
        for option in stored:
            with suppress(InvalidParams):
                self.validate_option(option.id, option.value)
                self.set_option_without_update(option.id, option.value)

    def validate_option(self, option_id: str, value: str | bool) -> None:
        """Raise `InvalidParams` for an unknown option or value."""
        try:
            _with_value(self.option(option_id), value)
        except KeyError:
            raise InvalidParams("Unknown config option", data={"configId": option_id}) from None
        except ValueError:
            data = {"configId": option_id, "value": value}
            raise InvalidParams("The config option has no such value", data=data) from None

    # What the session is doing.

    def turn_here(self) -> TurnState | None:
        """Return the turn that work started here belongs to; None in the background."""
        return current_turn.get(None)

    def cancel(self) -> None:
        """Cancel the running turn, if there is one."""
        if self.turn_queue:
            self.turn_queue[0].cancel()

    @property
    def state(self) -> SessionState:
        """What the agent does in this session."""
        return self._state

    def set_idle(self) -> None:
        """Record that nothing runs any more; the caller sends the state."""
        self._state = "idle"

    @asynccontextmanager
    async def waiting_for_user(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """Mark the session as waiting for the user, unless `detached`."""
        await self.flush()
        if detached:
            yield
            return
        self._waiting += 1
        await self.update_state()
        try:
            yield
        finally:
            self._waiting -= 1
            if not (self.turn_queue and self.turn_queue[0].cancelled):
                await self.update_state()

    async def update_state(self) -> None:
        """Send the state of the running turn if it has changed."""
        if not self.turn_queue:
            return
        is_busy = any(
            call.status == "in_progress" and not call.is_asking and not call.is_in_background
            for call in self.open_tool_calls.values()
        ) or any(
            child.state == "running" and not child.is_in_background for child in self.subagents
        )
        state = "requires_action" if self._waiting and not is_busy else "running"
        if state != self._state:
            self._state = state
            await self.send_state()

    async def send_state(self) -> None:
        """Send the state and the background work, in versions that have them."""
        await self.flush()
        await self.client_adapter.send_state(self.id, self._state, self.background)

    async def notify_background(self) -> None:
        """Send the state if the background work has changed."""
        if not self.closed and self.background.has_changed():
            await self.send_state()


def _with_value(option: SessionOption, value: str | bool) -> SessionOption:
    """Return an option with another value; raise ValueError for a value it does not have."""
    if isinstance(option, SelectOption):
        if not any(choice.value == value for choice in option.choices):
            raise ValueError(value)
    elif not isinstance(value, bool):
        raise ValueError(value)
    return msgspec.structs.replace(option, value=value)


def _output_of(writer: UpdateWriter) -> StoredOutput:
    return BatchedOutput(writer) if writer.is_batched else StoredOutput(writer)
