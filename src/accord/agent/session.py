"""A conversation: where it works, what the user has set, and the turns that run in it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from accord.agent.client_adapter import mode_of
from accord.agent.session_actions import SessionActions
from accord.agent.updates import MessageRole, MessageUpdate, OptionsUpdate, TitleUpdate, Update
from accord.errors import InvalidParams, LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.awaited import must_await
from accord.types.content import ContentBlock, require_content
from accord.types.session import (
    AvailableCommand,
    BooleanOption,
    SelectOption,
    SessionOption,
    SystemPrompt,
)
from accord.types.validation import require_type, require_types

if TYPE_CHECKING:
    from accord.agent.background import Background
    from accord.agent.connected_client import ConnectedClient
    from accord.agent.files import SessionFiles
    from accord.agent.session_manager import SessionManager
    from accord.agent.subagent import SubagentHandle
    from accord.agent.terminals import SessionTerminals
    from accord.agent.tool_call import ToolCallHandle
    from accord.agent.turn_runner import TurnRunner
    from accord.types.mcp import McpServer

__all__ = ("Session",)


class Session(SessionActions):
    """One conversation with one client.

    `roots` are `cwd` and the further directories that files may be in; `mcp_servers` are
    what the client wants it to use, `system_prompt` what it tells the model (unstable);
    `data` is for the agent's own use.
    """

    def __init__(
        self,
        session_id: str,
        manager: SessionManager,
        *,
        cwd: str,
        directories: Sequence[str],
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: SystemPrompt | None = None,
        first_number: int = 0,
        write: Callable[[Update], Awaitable[None]] | None = None,
        read_history: Callable[[], Awaitable[list[Update]]] | None = None,
    ) -> None:
        self.session = self
        self.id = session_id
        self.manager = manager
        self.agent = manager.agent
        self.client_adapter = manager.client_adapter
        self.cwd = cwd
        self.directories = tuple(directories)
        self.mcp_servers = tuple(mcp_servers)
        self.system_prompt = system_prompt
        self.data: dict[str, Any] = {}
        self.title: str | None = None
        self.title_set_by_user = False
        self.options: tuple[SessionOption, ...] = ()
        self.commands: tuple[AvailableCommand, ...] = ()
        self.is_open = False  # the client knows of it
        self.closed = False
        self.permission_memory: dict[str, bool] = {}  # what the user always allows or rejects
        self.turn_queue: deque[TurnRunner] = deque()  # the first runs, the others are held
        self.open_tool_calls: dict[str, ToolCallHandle] = {}  # those that have not ended
        self.subagents: list[SubagentHandle] = []  # as above
        self.not_awaited: list[str] = []  # calls that were dropped
        self._write = write
        self._read_history = read_history
        self._publish_lock = asyncio.Lock()  # what is stored next is sent next
        self._count = first_number
        self._role: MessageRole | None = None
        self._message_id = ""
        self._asking = 0
        self._state: Literal["idle", "running", "requires_action"] = "idle"

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.turn_queue else self._state
        return f"<Session {excerpt(self.id, 60)!r} in {excerpt(self.cwd)!r}, {state}>"

    @property
    def client(self) -> ConnectedClient:
        """The client that has it open."""
        return self.manager.client

    # What it shows.

    def next_id(self, kind: str) -> str:
        """Return an id that nothing else in this session has."""
        self._count += 1
        return f"{kind}-{self._count}"

    def add_to_message(
        self, role: MessageRole, content: ContentBlock, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Add to the message of this role, or begin one if another was spoken last."""
        if role is not self._role:
            self._role = role
            self._message_id = self.next_id("message")
        if self._write is None and not self.closed:
            return self.client_adapter.send_message_chunk(
                self.id, role, self._message_id, content, meta
            )
        require_content("content", content)  # the link has seen to it otherwise
        return self._say_stored(role, self._message_id, content, meta)

    async def _say_stored(
        self,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None,
    ) -> None:
        async with self._publish_lock:
            await self.store_update(MessageUpdate(role, message_id, (content,)))
            await self.client_adapter.send_message_chunk(self.id, role, message_id, content, meta)

    def end_message(self) -> None:
        """Let what is said next begin a message of its own."""
        self._role = None

    async def publish(self, report: Update) -> None:
        """Store and send a report."""
        if self._write is None:
            await self.store_update(report)
            await self.client_adapter.send_update(self.id, report)
            return
        async with self._publish_lock:
            await self.store_update(report)
            await self.client_adapter.send_update(self.id, report)

    @asynccontextmanager
    async def hold_updates(self) -> AsyncGenerator[None, None]:
        """Let nothing be stored or shown meanwhile but by the caller: for replays."""
        async with self._publish_lock:
            yield

    async def store_update(self, report: Update) -> None:
        """Store a report, before anybody is told of it."""
        if self.closed:
            raise LocalProtocolError(f"Session {self.id} is closed")
        if self._write is not None:
            await self._write(report)

    @must_await("session")
    async def set_title(self, title: str | None) -> None:
        """Give the session a title, or none."""
        require_type("title", title, str, NoneType)
        if self.title_set_by_user:  # R-TITLE-05
            return
        self.title = title
        if self.is_open:
            await self.publish(TitleUpdate(title))

    async def history(self) -> list[Update]:
        """Return what has been said and done, each thing once; nothing without a store."""
        return [] if self._read_history is None else await self._read_history()

    # What the user has set.

    @property
    def mode(self) -> str | None:
        """The value of the option whose category is `mode`."""
        option = mode_of(self.options)
        return None if option is None else option.value

    def option(self, option_id: str) -> str | bool:
        """Return the value of a config option; raise KeyError for an unknown one."""
        return self._find(option_id).value

    @must_await("session")
    async def set_options(self, options: Iterable[SessionOption]) -> None:
        """Put these config options in place of all; one of category `mode` makes the modes."""
        options = tuple(
            require_types("set_options(options=…)", options, SelectOption, BooleanOption)
        )
        mode_was = self.mode
        self._replace_options(options)
        if self.is_open:
            await self.publish(OptionsUpdate(options, self.mode != mode_was))

    def _replace_options(self, options: tuple[SessionOption, ...]) -> None:
        for option in options:
            if isinstance(option, SelectOption):
                values = [choice.value for choice in option.choices]
                if option.value not in values or len(set(values)) != len(values):  # R-CONF-17
                    raise ValueError(f"{option.id}: {option.value!r} is not one of {values}")
        self.options = options

    @must_await("session")
    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of a config option and tell the client."""
        changed = _with(self._find(option_id), value)
        await self.set_options(o if o.id != option_id else changed for o in self.options)

    def apply_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of an option that the agent has not changed away meanwhile."""
        self.options = tuple(
            _with(option, value) if option.id == option_id else option for option in self.options
        )

    def restore_options(self, options: Iterable[SessionOption]) -> None:
        """Take the values that stored options had, where there are such options and values."""
        for stored in options:
            with suppress(InvalidParams):
                self.validate_option(stored.id, stored.value)
                self.apply_option(stored.id, stored.value)

    def validate_option(self, option_id: str, value: str | bool) -> None:
        """Raise `InvalidParams` for an unknown option and a value it does not have."""
        try:
            _with(self._find(option_id), value)
        except KeyError:
            raise InvalidParams("Unknown config option", data={"configId": option_id}) from None
        except ValueError:
            data = {"configId": option_id, "value": value}
            raise InvalidParams("The config option has no such value", data=data) from None

    def _find(self, option_id: str) -> SessionOption:
        for option in self.options:
            if option.id == option_id:
                return option
        raise KeyError(option_id)

    # What it works with.

    @cached_property
    def files_of_session(self) -> SessionFiles:
        """See `files`."""
        from accord.agent.files import SessionFiles

        return SessionFiles(self)

    @cached_property
    def terminals_of_session(self) -> SessionTerminals:
        """See `terminals`."""
        from accord.agent.terminals import SessionTerminals

        return SessionTerminals(self)

    @cached_property
    def background_work(self) -> Background:
        """What runs beside its turns."""
        from accord.agent.background import Background

        return Background(self)

    # Whether it waits for the user.

    @asynccontextmanager
    async def waiting_for_user(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """The user is asked for something meanwhile; by background work no turn waits for it."""
        if detached:
            yield
            return
        self._asking += 1
        await self.update_state()
        try:
            yield
        finally:
            self._asking -= 1
            if not (self.turn_queue and self.turn_queue[0].turn.cancelled):
                await self.update_state()

    async def update_state(self) -> None:
        """Say whether the turn goes on or needs the user, if that has changed."""
        if not self.turn_queue:
            return
        goes_on = any(
            t.status == "in_progress" and not t.is_asking and not t.is_in_background
            for t in self.open_tool_calls.values()
        ) or any(
            child.state == "running" and not child.is_in_background for child in self.subagents
        )
        state = "requires_action" if self._asking and not goes_on else "running"
        if state != self._state:
            self._state = state
            await self.client_adapter.send_state(self)

    @property
    def state(self) -> Literal["idle", "running", "requires_action"]:
        """What the agent does in this session."""
        return self._state

    def set_idle(self) -> None:
        """Nothing runs any more; whoever calls this says so to the client."""
        self._state = "idle"


def _with(option: SessionOption, value: str | bool) -> SessionOption:
    """Return an option with another value; raise ValueError for one it does not have."""
    if isinstance(option, SelectOption):
        if not any(choice.value == value for choice in option.choices):
            raise ValueError(value)
    elif not isinstance(value, bool):
        raise ValueError(value)
    return msgspec.structs.replace(option, value=value)
