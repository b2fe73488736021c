"""Calls an agent in one protocol version, and distributes the events of its sessions.

`AgentAdapter` is the base of the adapters of both versions. `SessionEventStream` applies the
updates of one session to its transcript, and passes its events to consumers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from msgspec import Struct

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)
from accord.client.transcript import Transcript, append_texts
from accord.connection.lanes import Backlog, Backlogs
from accord.errors import NotOffered, RequestError
from accord.rules.quirks import tolerates
from accord.types.content import ContentBlock
from accord.types.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.types.session import (
    AuthAccount,
    AuthStatus,
    AvailableCommand,
    BooleanOption,
    Implementation,
    ProviderInfo,
    SessionOption,
    StopReason,
    SystemPrompt,
    TokenUsage,
)
from accord.types.steering import (
    PROMPT_REQUIRED,
    STEERING,
    SteeringOutcome,
    is_advertised,
    outcome_of,
)
from accord.version import ProtocolVersion
from accord.wire.protocol import Method

if TYPE_CHECKING:
    from accord.client.budget import SessionMeter

# Applies the updates of one session to its transcript, and passes its events to consumers.
#
# A consumer never delays the stream: its queued events are its backlog, and the connection stops
# reading if the backlogs grow too large.

# Returns the events of an update of one protocol version.
UpdateReader: TypeAlias = Callable[[Any, Transcript], Event | tuple[Event, ...] | None]

# The events of the conversation. The other events contain the state of the session.
_HISTORY = (
    Compaction,
    ContentChunk,
    Notice,
    MessageReplaced,
    SessionMessage,
    AgentTerminal,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)


class EventQueue:
    """Queued events, as an asynchronous iterator."""

    __slots__ = (
        "_closed",
        "_ended",
        "_error",
        "_events",
        "_explain",
        "_loop",
        "_sizes",
        "_waiter",
        "backlog",
        "error_raised",
    )

    def __init__(
        self,
        backlog: Backlog,
        explain: Callable[[BaseException], Awaitable[None]] | None = None,
    ) -> None:
        self.backlog: Backlog = backlog
        self._explain = explain  # called before an error is raised
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._sizes: deque[int] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self.error_raised: bool = False

    def put(self, event: Event, size: int) -> None:
        """Add an event from an update of `size` bytes."""
        if self._closed:
            return
        self._events.append(event)
        self._sizes.append(size)
        self.backlog.add(size)
        if self._waiter is not None:
            self._wake()

    def extend(self, events: Sequence[Event], sizes: Sequence[int]) -> bool:
        """Add events with their sizes; return False, and add none, if a bound would be exceeded."""
        if self._closed:
            return True
        if not self.backlog.add_all(sizes):
            return False
        self._events.extend(events)
        self._sizes.extend(sizes)
        if self._waiter is not None:
            self._wake()
        return True

    @property
    def is_full(self) -> bool:
        """Whether the consumer does not keep up."""
        return self.backlog.is_full

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: BaseException | None = None) -> None:
        """End the iteration, with `error`, after the queued events."""
        if not self._ended:
            self._ended = True
            self._error = error
            self.backlog.ignore()
            self._wake()

    def close(self) -> None:
        """Drop the queued events and all further ones."""
        self._closed = True
        self._events.clear()
        self._sizes.clear()
        self.backlog.clear()

    def __aiter__(self) -> EventQueue:
        return self

    async def __anext__(self) -> Event:
        events = self._events
        while not events:
            if self._ended:
                if self._error is not None and not self.error_raised:
                    if self._explain is not None:
                        await self._explain(self._error)
                    self.error_raised = True
                    raise self._error
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("Another task is already iterating over these events")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = events.popleft()
        self.backlog.remove(self._sizes.popleft())
        return event


class SessionEventStream:
    """The events of one session; it exists before the response that opens the session."""

    __slots__ = (
        "_events_from_update",
        "_listeners",
        "disconnect_error",
        "drops_history",
        "is_cancelling",
        "is_released",
        "meter",
        "on_disconnect",
        "on_event",
        "on_release",
        "on_subagent",
        "pending_echo",
        "prompt_start",
        "questions",
        "queue",
        "session_id",
        "steer",
        "transcript",
        "turn_starts",
        "turn_unfinished",
    )

    def __init__(self, session_id: str, read: UpdateReader) -> None:
        self.session_id: str = session_id
        self.transcript: Transcript = Transcript()
        self.queue: EventQueue | None = None  # of the running turn
        # Says something to the agent in the running turn.
        self.steer: Callable[..., Coroutine[Any, Any, Any]] | None = None
        self.questions: int = 0  # to the user, which are not answered yet
        self.meter: SessionMeter | None = None  # if the client has a budget
        self.on_event: Callable[[Event], None] | None = None  # called for all events except `Text`
        self.on_disconnect: Callable[[BaseException], None] | None = None
        # Called when the session is closed or loaded again, if an event would end the turn.
        self.on_release: Callable[[], None] | None = None
        # Called with the ids of this session and of each subagent.
        self.on_subagent: Callable[[str, str], None] | None = None
        self.is_released: bool = False  # the session was closed or loaded again
        self.pending_echo: str = ""  # the part of the prompt that the agent has not echoed
        self.drops_history: bool = False  # while the session is opened without a replay
        self.is_cancelling: bool = False  # the turn was cancelled and has not ended
        self.turn_starts: list[int] = []  # the index of the first item of each turn
        self.prompt_start: int = 0  # that of the last prompt, which can be a later one of the turn
        self.disconnect_error: BaseException | None = None  # why the connection ended
        self.turn_unfinished: bool = False  # the last turn was left before the agent ended it
        self._listeners: list[EventQueue] = []
        self._events_from_update = read

    @property
    def is_full(self) -> bool:
        """Whether a consumer does not keep up."""
        if self.queue is not None:
            return self.queue.is_full
        return any(listener.is_full for listener in self._listeners)

    def receive(self, update: Any, size: int = 0) -> Text | None:
        """Apply an update of `size` bytes; return the event if it is text of a running turn."""
        event = self._events_from_update(update, self.transcript)
        if type(event) is Text and (queue := self.queue) is not None:
            # The short path, for streamed text.
            self.transcript.apply(event)
            queue.put(event, size)
            return event
        if self.drops_history:
            event = _without_history(event)
        if event is None or (
            self.pending_echo and type(event) is UserText and self._is_echo(event)
        ):
            pass
        elif type(event) is tuple:
            for each in event:
                self.publish(each, size)
                size = 0
        else:
            self.publish(event, size)  # type: ignore[arg-type]  # not a tuple
        return None

    def end_replay(self, _response: object = None) -> None:
        """Keep the following updates: the session is open and the replay is over."""
        self.drops_history = False

    @tolerates("prompt-echoed")
    def _is_echo(self, event: UserText) -> bool:
        """Return whether the agent echoes the prompt, which the transcript already contains."""
        if not self.pending_echo.startswith(event.text):
            return False
        self.pending_echo = self.pending_echo.removeprefix(event.text)
        return True

    def publish(self, event: Event, size: int = 0) -> None:
        """Apply an event to the transcript and pass it to the consumers."""
        self.transcript.apply(event)
        if self.meter is not None:
            self.meter.on_event(event)
        if type(event) is Subagent and self.on_subagent is not None:
            self.on_subagent(self.session_id, event.id)
        queue = self.queue
        if queue is None:
            for listener in tuple(self._listeners):
                listener.put(event, size)
            return
        queue.put(event, size)
        if self.on_event is not None:
            self.on_event(event)

    @contextmanager
    def question(self) -> Generator[None, None, None]:
        """Enclose a question to the user: no steer cancels it, and its time is not counted."""
        self.questions += 1
        if self.meter is not None:
            self.meter.pause()
        try:
            yield
        finally:
            self.questions -= 1
            if self.meter is not None:
                self.meter.resume()

    def subscribe(self, backlogs: Backlogs) -> EventQueue:
        """Return a queue of the following events outside turns."""

        def exceeded(error: BaseException) -> None:
            queue.end(error)
            if queue in self._listeners:
                self._listeners.remove(queue)

        queue = EventQueue(backlogs.open(self.session_id, exceeded))
        if self.disconnect_error is not None:
            queue.end()
        self._listeners.append(queue)
        return queue

    def move(self, backlogs: Backlogs) -> None:
        """Count the queued events on a new connection."""
        for queue in (self.queue, *self._listeners):
            if queue is not None:
                queue.backlog.move(backlogs)

    def unsubscribe(self, queue: EventQueue) -> None:
        """End a queue of `subscribe`."""
        queue.end()
        queue.close()
        if queue in self._listeners:
            self._listeners.remove(queue)

    def release(self) -> None:
        """End the stream: the session is closed or loaded again."""
        self.is_released = True
        if self.on_release is not None:
            self.on_release()
        for queue in self._listeners:
            queue.end()

    def end(self, error: BaseException) -> None:
        """End the stream with the connection."""
        self.disconnect_error = error
        if self.on_disconnect is not None:
            self.on_disconnect(error)
        for queue in self._listeners:
            queue.end()


class MessageText:
    """Receives streamed text of one message of the running turn."""

    __slots__ = ("_message_id", "_read", "_stream", "text")

    def __init__(self, stream: SessionEventStream, event: Text, read: UpdateReader) -> None:
        self.text: str = event.text
        self._message_id = event.message_id
        self._stream = stream
        self._read = read

    def fits(self, method: str, params: Any, text: str) -> bool:
        """Return whether these params append the text to the message, and mean nothing else."""
        if method != "session/update" or params.session_id != self._stream.session_id:
            return False
        event = self._read(params.update, self._stream.transcript)
        return type(event) is Text and event == Text(text, self._message_id)

    @property
    def has_ended(self) -> bool:
        """Whether the turn has ended, or the session was closed or loaded again."""
        return self._stream.queue is None or self._stream.is_released

    def receive(self, texts: list[str], sizes: list[int]) -> None:
        """Append texts to the message."""
        stream, message_id = self._stream, self._message_id
        events = [Text(text, message_id) for text in texts]
        assert stream.queue is not None, "the turn has not ended"
        if stream.queue.extend(events, sizes):
            append_texts(stream.transcript, message_id, texts)
            return
        for event, size in zip(events, sizes, strict=True):  # the turn can fail at any of them
            stream.publish(event, size)


@tolerates("replay-on-resume")
def _without_history(
    events: Event | tuple[Event, ...] | None,
) -> Event | tuple[Event, ...] | None:
    if type(events) is tuple:
        return tuple(event for event in events if not isinstance(event, _HISTORY)) or None
    return None if isinstance(events, _HISTORY) else events


# The words of calls that the methods of `ClientSession` omit.
_OMITTED = frozenset(("session", "config"))


class SessionSetup(Struct, frozen=True, kw_only=True):
    """The parameters of a session; all paths are absolute."""

    cwd: str
    additional_directories: tuple[str, ...] = ()  # in addition to `cwd`
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = None  # `_meta` of the request that opens the session
    # The resolved paths, from before the agent knew the directories; None if not resolved yet.
    real_directories: tuple[str, ...] | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that files may be in; `cwd` is the first (R-SESS-04)."""
        return (self.cwd, *self.additional_directories)


class OpenedSession(Struct, frozen=True, kw_only=True):
    """An opened session; None for what the response did not contain."""

    session_id: str
    options: tuple[SessionOption, ...] | None = None
    commands: tuple[AvailableCommand, ...] | None = None


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A stored session (`v1.SessionInfo`, `v2.SessionInfo`); `updated_at` is RFC 3339."""

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None


class SessionStatus(Struct, frozen=True, kw_only=True):
    """Whether a session is open in the agent, and its state.

    The wire types are `v1.SessionStatus` and `v2.SessionStatus`. The status may have
    changed already. A `state` of None does not mean idle.
    """

    is_open: bool
    state: StateChanged | None = None


class SessionPage(Struct, frozen=True):
    """A page of the session list; `next_cursor` is None on the last page."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None


class AuthMethod(Struct, frozen=True, kw_only=True):
    """An auth method.

    If `terminal` is true, run the agent's command with `args` and `env` added.
    """

    id: str
    name: str
    description: str | None = None
    terminal: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    stop_reason: StopReason
    token_usage: TokenUsage | None = None
    error: RequestError | None = None
    meta: dict[str, Any] | None = None


class AgentAdapter:
    """Calls an agent in one protocol version.

    A method that both versions write alike is implemented here, by `call` if only one of them
    has it: then it raises `NotOffered` in the other, and no adapter changes.
    """

    version: ClassVar[ProtocolVersion]
    types: ClassVar[Any]  # the package of the version
    # The calls of this version for what only the API or the other version names so.
    method_names: ClassVar[Mapping[str, str]] = {}
    echoes_prompts: ClassVar[bool]  # the agent reports the prompt and its own state
    events_from_update: UpdateReader
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]]
    content_to_wire: Callable[[ContentBlock], Any]

    def __init__(self, remote: Any) -> None:
        self.remote = remote  # the `RemoteAgent` of the version

    def on(self, remote: Any) -> Self:
        """Return an adapter of the same agent that calls it by another `RemoteAgent`."""
        other = copy(self)
        other.remote = remote
        return other

    @property
    def info(self) -> Implementation:
        """The name and version of the agent."""
        raise NotImplementedError

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The auth methods that the agent advertises."""
        raise NotImplementedError

    def supports(self, method: str) -> bool:
        """Return whether the agent advertises a method, False for an unknown name."""
        call = self.method_calls(self.remote.spec.methods).get(method)
        return call is not None and self.remote.supports(call)

    @classmethod
    def method_calls(cls, methods: Iterable[Method]) -> dict[str, str]:
        """Return the calls of the methods of agents by all their names.

        These are the protocol's name (`session/set_mode`), the call (`set_session_mode`), and the
        call without the words that the methods of a session omit (`set_mode`).
        """
        calls: dict[str, str] = {}
        for method in methods:
            if method.to == "agent":
                words = (word for word in method.call.split("_") if word not in _OMITTED)
                calls |= dict.fromkeys((method.name, method.call, "_".join(words)), method.call)
        for name, call in cls.method_names.items():
            calls.setdefault(name, call)
        return calls

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request that only some versions have; raise `NotOffered` in the others."""
        rows = self.types.METHODS
        row = next((row for row in rows if row.name == method and row.is_request), None)
        if row is None:
            raise NotOffered(method, f"a protocol version other than {self.version}")
        return await getattr(self.remote, row.call)(row.params(**params))

    def supports_content(self, kind: str) -> bool:
        """Return whether prompts may contain `text`, `link`, `image`, `audio` or `resource`."""
        raise NotImplementedError

    @property
    def mcp_transports(self) -> frozenset[str]:
        """The transports of MCP servers that the agent supports: `acp`, `http`, `sse`, `stdio`."""
        raise NotImplementedError

    # Sessions.

    async def new_session(self, setup: SessionSetup) -> OpenedSession:
        """Open a new session."""
        request = self.types.NewSessionRequest(**self.setup_to_wire(setup))
        response = await self.remote.new_session(request)
        return self.opened_session(response.session_id, response)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        """Open a stored session; `opened` is called before any later message is handled."""
        raise NotImplementedError

    async def fork_session(self, session_id: str, setup: SessionSetup) -> OpenedSession:
        """Open a copy of a session."""
        request = self.types.ForkSessionRequest(session_id=session_id, **self.setup_to_wire(setup))
        response = await self.remote.fork_session(request)
        return self.opened_session(response.session_id, response)

    def opened_session(self, session_id: str, response: Any) -> OpenedSession:
        """Return what the response to a request that opens a session contains."""
        raise NotImplementedError

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> SessionPage:
        """Return one page of the stored sessions."""
        request = self.types.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        response = await self.remote.list_sessions(request)
        sessions = (
            SessionInfo(
                id=info.session_id,
                cwd=info.cwd,
                additional_directories=tuple(info.additional_directories),
                title=info.title,
                updated_at=info.updated_at,
                archived=info.archived,
            )
            for info in response.sessions
        )
        return SessionPage(tuple(sessions), response.next_cursor)

    async def close_session(self, session_id: str) -> None:
        """Close a session."""
        await self.remote.close_session(self.types.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session."""
        await self.remote.delete_session(self.types.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str) -> None:
        """Archive a session."""
        await self.remote.archive_session(self.types.ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        """Unarchive a session."""
        request = self.types.UnarchiveSessionRequest(session_id=session_id)
        await self.remote.unarchive_session(request)

    async def set_session_title(self, session_id: str, title: str) -> str:
        """Set the title of a session; return it as the agent has stored it."""
        request = self.types.SetSessionTitleRequest(session_id=session_id, title=title)
        return (await self.remote.set_session_title(request)).title

    async def session_status(self, session_id: str) -> SessionStatus:
        """Return whether a session is open, and its state if the version has one."""
        request = self.types.SessionStatusRequest(session_id=session_id)
        response = await self.remote.session_status(request)
        # An unknown status does not mean open (R-STATUS-05).
        return SessionStatus(is_open=response.status == "open", state=self.state_of(response))

    def state_of(self, response: Any) -> StateChanged | None:
        """Return the state in the response to `session/status`."""
        return None

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        """Set a config option; return all options, None if the response has none."""
        types = self.types
        kind, new = types.SetSessionConfigOptionId, str(value)
        if isinstance(option, BooleanOption):
            kind, new = types.SetSessionConfigOptionBoolean, bool(value)
        request = kind(session_id=session_id, config_id=option.id, value=new)
        response = await self.remote.set_session_config_option(request)
        return self.options_from_wire(response.config_options)

    def keep_modes(
        self, options: tuple[SessionOption, ...], earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        """Return config options that the agent sent, with the modes that it has in addition."""
        return options

    # Turns.

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult | None:
        """Send a prompt; return the result of its turn, or None once the prompt is inserted.

        In the second case `inserted` was called with its message id, and a state ends the turn.
        """
        raise NotImplementedError

    async def cancel(self, session_id: str) -> None:
        """Cancel the turn of a session."""
        raise NotImplementedError

    @property
    def can_be_steered(self) -> bool:
        """Whether the agent advertises that it takes messages while it works."""
        return is_advertised(self.remote.initialized.meta)

    async def steer(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        injected: Callable[[], None] | None = None,
    ) -> SteeringOutcome | None:
        """Send a message for the running turn; return what became of it, None if not said.

        If the agent has it, `injected` was called before any later message was handled.
        """

        def on_result(found: Any) -> None:
            if injected is not None and outcome_of(found) == "injected":
                injected()

        types = self.types
        request = types.PromptRequest(
            session_id=session_id,
            prompt=[self.content_to_wire(content) for content in contents],
            meta=PROMPT_REQUIRED,
        )
        result = await self.remote.call_extension(STEERING, request, on_result=on_result)
        return outcome_of(result)

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        """Cancel one tool call."""
        await self.call("tool_call/cancel", session_id=session_id, tool_call_id=tool_call_id)

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        """Stop the command of one terminal."""
        await self.call("terminal/cancel", session_id=session_id, terminal_id=terminal_id)

    # Login and model providers.

    async def authenticate(self, method_id: str) -> None:
        """Log in by an auth method that the agent runs."""
        raise NotImplementedError

    async def logout(self) -> None:
        """Log out."""
        raise NotImplementedError

    async def auth_status(self) -> AuthStatus:
        """Return whether a user is logged in, and the accounts."""
        return auth_status_from_wire(await self.remote.auth_status(self.types.AuthStatusRequest()))

    async def providers(self) -> tuple[ProviderInfo, ...]:
        """Return the model providers that can be configured."""
        response = await self.remote.list_providers(self.types.ListProvidersRequest())
        return tuple(map(_provider, response.providers))

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Configure a model provider."""
        request = self.types.SetProviderRequest(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers)
        )
        await self.remote.set_provider(request)

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a model provider."""
        await self.remote.disable_provider(
            self.types.DisableProviderRequest(provider_id=provider_id)
        )

    # What requests contain.

    def setup_to_wire(self, setup: SessionSetup) -> dict[str, Any]:
        """Return the params that all requests have which open a session."""
        return {
            "cwd": setup.cwd,
            "mcp_servers": [self.server_to_wire(server) for server in setup.mcp_servers],
            "additional_directories": list(setup.additional_directories),
            "system_prompt": self._system_prompt(setup),
            "meta": setup.meta,
        }

    def server_to_wire(self, server: Any) -> Any:
        """Return an MCP server as the version writes it; a value of the version stays as it is."""
        types = self.types
        match server:
            case McpServerStdio(name, command, args, env):
                pairs = [types.EnvVariable(name=key, value=value) for key, value in env.items()]
                return types.McpServerStdio(name=name, command=command, args=list(args), env=pairs)
            case McpServerHttp(name, url, headers):
                return types.McpServerHttp(name=name, url=url, headers=self._headers(headers))
            case McpServerSse(name, url, headers):
                return types.McpServerSse(name=name, url=url, headers=self._headers(headers))
            case McpServerAcp(name, server_id):
                return types.McpServerAcp(name=name, server_id=server_id)
            case _:
                return server

    def _headers(self, headers: Mapping[str, str]) -> list[Any]:
        return [self.types.HttpHeader(name=key, value=value) for key, value in headers.items()]

    def _system_prompt(self, setup: SessionSetup) -> Any:
        prompt = setup.system_prompt
        if prompt is None:
            return None
        content = [self.content_to_wire(content) for content in prompt.content]
        return self.types.SystemPrompt(mode=prompt.mode, content=content)


def auth_status_from_wire(status: Any) -> AuthStatus:
    """Return the login state and accounts; an unknown state is `unknown`."""
    known = status.state in ("authenticated", "unauthenticated", "not_required")
    accounts = (
        AuthAccount(a.label, a.active, a.name, a.email, a.organization) for a in status.accounts
    )
    return AuthStatus(status.state if known else "unknown", tuple(accounts))


def _provider(info: Any) -> ProviderInfo:
    current = info.current
    return ProviderInfo(
        id=info.provider_id,
        supported=tuple(info.supported),
        required=info.required,
        api_type=None if current is None else current.api_type,
        base_url=None if current is None else current.base_url,
    )
