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
from accord.agent.session_actions import Verbs
from accord.agent.updates import MessageRole, OptionsReport, Report, Said, TitleReport
from accord.errors import InvalidParams, LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.awaited import must_await
from accord.types.content import Content, need_content
from accord.types.session import Command, Select, SessionOption, Switch, SystemPrompt
from accord.types.validation import need, need_each

if TYPE_CHECKING:
    from accord.agent.background import Background
    from accord.agent.connected_client import ConnectedClient
    from accord.agent.files import Files
    from accord.agent.session_manager import Host
    from accord.agent.subagent import Subagent
    from accord.agent.terminals import Terminals
    from accord.agent.tool_call import ToolCall
    from accord.agent.turn_runner import Course
    from accord.types.mcp import McpServer

__all__ = ("Session",)


class Session(Verbs):
    """One conversation with one client.

    `roots` are `cwd` and the further directories that files may be in; `mcp_servers` are
    what the client wants it to use, `system_prompt` what it tells the model (unstable);
    `data` is for the agent's own use.
    """

    def __init__(
        self,
        session_id: str,
        host: Host,
        *,
        cwd: str,
        roots: Sequence[str],
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: SystemPrompt | None = None,
        first: int = 0,
        record: Callable[[Report], Awaitable[None]] | None = None,
        read: Callable[[], Awaitable[list[Report]]] | None = None,
    ) -> None:
        self.session = self
        self.id = session_id
        self.host = host
        self.agent = host.agent
        self.link = host.link
        self.cwd = cwd
        self.roots = tuple(roots)
        self.mcp_servers = tuple(mcp_servers)
        self.system_prompt = system_prompt
        self.data: dict[str, Any] = {}
        self.title_now: str | None = None
        self.title_is_users = False
        self.options: tuple[SessionOption, ...] = ()
        self.commands_now: tuple[Command, ...] = ()
        self.is_open = False  # the client knows of it
        self.closed = False
        self.remembered: dict[str, bool] = {}  # what the user always allows or rejects
        self.turns: deque[Course] = deque()  # the first runs, the others are held
        self.tools: dict[str, ToolCall] = {}  # those that have not ended
        self.children: list[Subagent] = []  # as above
        self.not_awaited: list[str] = []  # calls that were dropped
        self._record = record
        self._read = read
        self._order = asyncio.Lock()  # what is stored next is sent next
        self._count = first
        self._role: MessageRole | None = None
        self._message_id = ""
        self._asking = 0
        self._state: Literal["idle", "running", "requires_action"] = "idle"

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.turns else self._state
        return f"<Session {excerpt(self.id, 60)!r} in {excerpt(self.cwd)!r}, {state}>"

    @property
    def client(self) -> ConnectedClient:
        """The client that has it open."""
        return self.host.client

    # What it shows.

    def next_id(self, kind: str) -> str:
        """Return an id that nothing else in this session has."""
        self._count += 1
        return f"{kind}-{self._count}"

    def said(
        self, role: MessageRole, content: Content, meta: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Add to the message of this role, or begin one if another was spoken last."""
        if role is not self._role:
            self._role = role
            self._message_id = self.next_id("message")
        if self._record is None and not self.closed:
            return self.link.said(self.id, role, self._message_id, content, meta)
        need_content("content", content)  # the link has seen to it otherwise
        return self._say_stored(role, self._message_id, content, meta)

    async def _say_stored(
        self,
        role: MessageRole,
        message_id: str,
        content: Content,
        meta: dict[str, Any] | None,
    ) -> None:
        async with self._order:
            await self.record(Said(role, message_id, (content,)))
            await self.link.said(self.id, role, message_id, content, meta)

    def end_message(self) -> None:
        """Let what is said next begin a message of its own."""
        self._role = None

    async def report(self, report: Report) -> None:
        """Store and send a report."""
        if self._record is None:
            await self.record(report)
            await self.link.show(self.id, report)
            return
        async with self._order:
            await self.record(report)
            await self.link.show(self.id, report)

    @asynccontextmanager
    async def quiet(self) -> AsyncGenerator[None, None]:
        """Let nothing be stored or shown meanwhile but by the caller: for replays."""
        async with self._order:
            yield

    async def record(self, report: Report) -> None:
        """Store a report, before anybody is told of it."""
        if self.closed:
            raise LocalProtocolError(f"Session {self.id} is closed")
        if self._record is not None:
            await self._record(report)

    @must_await("session")
    async def set_title(self, title: str | None) -> None:
        """Give the session a title, or none."""
        need("title", title, str, NoneType)
        if self.title_is_users:  # R-TITLE-05
            return
        self.title_now = title
        if self.is_open:
            await self.report(TitleReport(title))

    async def history(self) -> list[Report]:
        """Return what has been said and done, each thing once; nothing without a store."""
        return [] if self._read is None else await self._read()

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
        options = tuple(need_each("set_options(options=…)", options, Select, Switch))
        mode_was = self.mode
        self._put_options(options)
        if self.is_open:
            await self.report(OptionsReport(options, self.mode != mode_was))

    def _put_options(self, options: tuple[SessionOption, ...]) -> None:
        for option in options:
            if isinstance(option, Select):
                values = [choice.value for choice in option.choices]
                if option.value not in values or len(set(values)) != len(values):  # R-CONF-17
                    raise ValueError(f"{option.id}: {option.value!r} is not one of {values}")
        self.options = options

    @must_await("session")
    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of a config option and tell the client."""
        changed = _with(self._find(option_id), value)
        await self.set_options(o if o.id != option_id else changed for o in self.options)

    def take_option(self, option_id: str, value: str | bool) -> None:
        """Change the value of an option that the agent has not changed away meanwhile."""
        self.options = tuple(
            _with(option, value) if option.id == option_id else option for option in self.options
        )

    def take_stored(self, options: Iterable[SessionOption]) -> None:
        """Take the values that stored options had, where there are such options and values."""
        for stored in options:
            with suppress(InvalidParams):
                self.check_option(stored.id, stored.value)
                self.take_option(stored.id, stored.value)

    def check_option(self, option_id: str, value: str | bool) -> None:
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
    def files_of_session(self) -> Files:
        """See `files`."""
        from accord.agent.files import Files

        return Files(self)

    @cached_property
    def terminals_of_session(self) -> Terminals:
        """See `terminals`."""
        from accord.agent.terminals import Terminals

        return Terminals(self)

    @cached_property
    def background_work(self) -> Background:
        """What runs beside its turns."""
        from accord.agent.background import Background

        return Background(self)

    # Whether it waits for the user.

    @asynccontextmanager
    async def asking(self, *, detached: bool) -> AsyncGenerator[None, None]:
        """The user is asked for something meanwhile; by background work no turn waits for it."""
        if detached:
            yield
            return
        self._asking += 1
        await self.tell_state()
        try:
            yield
        finally:
            self._asking -= 1
            if not (self.turns and self.turns[0].turn.cancelled):
                await self.tell_state()

    async def tell_state(self) -> None:
        """Say whether the turn goes on or needs the user, if that has changed."""
        if not self.turns:
            return
        goes_on = any(
            t.status == "in_progress" and not t.asking and not t.is_detached
            for t in self.tools.values()
        ) or any(child.state == "running" and not child.is_detached for child in self.children)
        state = "requires_action" if self._asking and not goes_on else "running"
        if state != self._state:
            self._state = state
            await self.link.state(self)

    @property
    def state(self) -> Literal["idle", "running", "requires_action"]:
        """What the agent does in this session."""
        return self._state

    def idle(self) -> None:
        """Nothing runs any more; whoever calls this says so to the client."""
        self._state = "idle"


def _with(option: SessionOption, value: str | bool) -> SessionOption:
    """Return an option with another value; raise ValueError for one it does not have."""
    if isinstance(option, Select):
        if not any(choice.value == value for choice in option.choices):
            raise ValueError(value)
    elif not isinstance(value, bool):
        raise ValueError(value)
    return msgspec.structs.replace(option, value=value)
