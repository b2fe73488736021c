"""The client side in version 2: reads its updates, calls its agent and serves the agent."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, TypeVar, cast, overload

from msgspec.structs import replace

from accord import v2
from accord.client.agent_adapter import (
    AgentAdapter,
    AuthMethod,
    OpenedSession,
    SessionSetup,
    UpdateReader,
)
from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Event,
    MessageReplaced,
    OptionsChanged,
    PermissionRequest,
    Role,
    StateChanged,
    TerminalOutputChunk,
    ToolCall,
    UnknownUpdate,
)
from accord.client.shared import (
    SharedClientRole,
    locations_from_wire,
    message_event,
    option_from_wire,
    shared_readers,
    update_reader,
)
from accord.client.shared import state_from_wire as read_state
from accord.client.transcript import Transcript, continuation, merge_texts
from accord.errors import LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_from_wire, content_to_wire, tool_content_from_wire
from accord.types.mcp import McpServerSse
from accord.types.session import AvailableCommand, Implementation, SessionOption
from accord.version import ProtocolVersion
from accord.wire.base import UNSET, Unknown
from accord.wire.codec import to_builtins

# An immutable sequence that can be extended without a copy.

T = TypeVar("T")


class SharedSequence(Sequence[T]):
    """The first items of a list that only grows; equal to a tuple of these items."""

    __slots__ = ("_items", "_size")

    def __init__(self, items: list[T], size: int) -> None:
        self._items = items
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[place] for place in range(*index.indices(self._size)))
        if not -self._size <= index < self._size:
            raise IndexError("index out of range")
        return self._items[index if index >= 0 else index + self._size]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._size)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedSequence):
            shared = cast("SharedSequence[Any]", other)
            if self._items is shared._items:
                return self._size == shared._size
            return tuple(self) == tuple(shared)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def plus(self, item: T) -> SharedSequence[T]:
        """Return a sequence with one more item."""
        items = self._items
        if len(items) != self._size:  # another sequence has extended the list
            items = items[: self._size]
        items.append(item)
        return SharedSequence(items, self._size + 1)


def appended(items: Sequence[T], item: T) -> SharedSequence[T]:
    """Return a sequence with one more item, in constant time."""
    if not isinstance(items, SharedSequence):
        items = SharedSequence(list(items), len(items))
    return items.plus(item)


# Reads the updates of version 2 as events.

_STATES: dict[type, str] = {
    v2.IdleState: "idle",
    v2.IdleStateUpdate: "idle",
    v2.RunningState: "running",
    v2.RunningStateUpdate: "running",
    v2.RequiresActionState: "requires_action",
    v2.RequiresActionStateUpdate: "requires_action",
    v2.UnknownState: "unknown",
    v2.UnknownStateUpdate: "unknown",
}


def _message(role: Role) -> UpdateReader:
    def read_message(
        update: v2.MessageUpdateBase, transcript: Transcript
    ) -> Event | tuple[Event, ...] | None:
        message_id = update.message_id
        known = transcript.message(role, message_id)
        if update.content is UNSET:
            return MessageReplaced(role, message_id, ()) if known is None else None
        new = merge_texts(map(content_from_wire, update.content or ()))
        old = () if known is None else known.content
        more = continuation(old, new)
        if more is None or (known is None and not new):
            return MessageReplaced(role, message_id, new)
        return tuple(message_event(content, role, message_id) for content in more) or None

    return read_message


# Tool calls and terminals.


def apply_tool_call(details: v2.ToolCallDetails, transcript: Transcript) -> ToolCall | None:
    """Return a tool call with a patch applied: `UNSET` keeps, None clears (R-TOOL-08)."""
    blank = ToolCall(id=details.tool_call_id)
    known = transcript.tool_call(details.tool_call_id)
    changes: dict[str, Any] = {}
    for name in ("title", "name", "kind", "status", "raw_input", "raw_output", "meta"):
        value = getattr(details, name)
        if value is not UNSET:
            changes[name] = getattr(blank, name) if value is None else value
    if details.content is not UNSET:
        changes["content"] = tuple(map(tool_content_from_wire, details.content or ()))
    if details.locations is not UNSET:
        changes["locations"] = locations_from_wire(details.locations or ())
    if details.capabilities is not UNSET:
        capabilities = details.capabilities
        changes["cancellable"] = capabilities is not None and capabilities.cancel is not None
    old = known or blank
    changed = tuple(name for name, value in changes.items() if getattr(old, name) != value)
    if old.unfinished:
        changed = (*changed, "unfinished")
    if known is not None and not changed:
        return None
    return replace(old, **changes, changed=changed, unfinished=False)


def _tool_content(update: v2.ToolCallContentChunk, transcript: Transcript) -> Event:
    call = transcript.tool_call(update.tool_call_id) or ToolCall(id=update.tool_call_id)
    content = appended(call.content, tool_content_from_wire(update.content))
    changed = ("content", "unfinished") if call.unfinished else ("content",)
    return replace(call, content=content, changed=changed, unfinished=False)


def _terminal(update: v2.TerminalUpdate, transcript: Transcript) -> Event | tuple[Event, ...]:
    shell = transcript.terminals.get(update.terminal_id)
    changes: dict[str, Any] = {}
    if update.command is not UNSET:
        changes["command"] = update.command
    if update.cwd is not UNSET:
        changes["cwd"] = update.cwd
    if update.size is not UNSET:
        size = update.size
        changes["size"] = None if size is None else (size.cols, size.rows)
    if update.exit_status is not UNSET:
        exited = update.exit_status
        changes["exited"] = exited is not None  # null means running (R-DTERM-08)
        changes["exit_code"] = None if exited is None else exited.exit_code
        changes["signal"] = None if exited is None else exited.signal
    if update.capabilities is not UNSET:
        capabilities = update.capabilities
        changes["cancellable"] = capabilities is not None and capabilities.cancel is not None
    old = AgentTerminal(id=update.terminal_id) if shell is None else shell.terminal
    terminal = replace(old, **changes)
    if update.output is UNSET:
        return terminal
    data = b"" if update.output is None else _decoded(update.output.data)
    return terminal, TerminalOutputChunk(update.terminal_id, data, replaces=True)


def _terminal_output(update: v2.TerminalOutputChunk, _transcript: Transcript) -> Event:
    return TerminalOutputChunk(update.terminal_id, _decoded(update.data))


def _decoded(data: str) -> bytes:
    """Decode a single chunk (R-DTERM-06); invalid Base64 becomes an empty output."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return b""


def _commands(update: v2.AvailableCommandsUpdate, _transcript: Transcript) -> Event:
    return CommandsChanged(commands_from_wire(update.available_commands))


def commands_from_wire(commands: Iterable[v2.AvailableCommand]) -> tuple[AvailableCommand, ...]:
    """Return commands; one of an unknown type is shown by its name and description."""
    return tuple(map(_command, commands))


def _command(command: v2.AvailableCommand) -> AvailableCommand:
    match command:
        case v2.Command(name=name, description=description, input=v2.TextCommandInput(hint=hint)):
            return AvailableCommand(name, description, hint)
        case v2.Command(name=name, description=description):
            return AvailableCommand(name, description)
        case Unknown(raw=raw):
            return AvailableCommand(raw["name"], raw["description"])


def _options(update: v2.ConfigOptionUpdate, _transcript: Transcript) -> Event:
    return OptionsChanged(options_from_wire(update.config_options))


def options_from_wire(options: Iterable[v2.SessionConfigOption]) -> tuple[SessionOption, ...]:
    """Return the config options of a session, without those of an unknown type (R-CONF-12)."""
    known = (option_from_wire(v2, option, getattr(option, "config_id", "")) for option in options)
    return tuple(option for option in known if option is not None)


def _state(update: v2.StateUpdate, _transcript: Transcript) -> Event:
    return state_from_wire(update)


def state_from_wire(state: v2.SessionState | v2.StateUpdate) -> StateChanged:
    """Return the state of a session."""
    event = read_state(_STATES, state)
    work = None if isinstance(state, Unknown) else state.background
    return event if work is None else replace(event, background=tuple(map(_work_id, work)))


def _work_id(work: v2.BackgroundWork) -> str:
    match work:
        case v2.BackgroundTerminal(terminal_id=work_id):
            return work_id
        case v2.BackgroundToolCall(tool_call_id=work_id):
            return work_id
        case v2.BackgroundSubagent(session_id=work_id):
            return work_id
        case Unknown(tag=tag):
            return tag  # unknown work is still work (R-BGW-07)


def _unknown(update: Any) -> Event:
    if not isinstance(update, Unknown):
        return UnknownUpdate(to_builtins(update))
    if update.raw.get("sessionUpdate") == "state_update":
        return StateChanged(state=str(update.raw.get("state")))  # never idle (R-PROMPT-34)
    return UnknownUpdate(update.raw)


READERS: dict[type, UpdateReader] = {
    **shared_readers(v2, content_from_wire, state_from_wire),
    v2.AgentMessage: _message("agent"),
    v2.AgentThought: _message("thought"),
    v2.UserMessage: _message("user"),
    v2.ToolCallUpdate: apply_tool_call,
    v2.ToolCallContentChunk: _tool_content,
    v2.TerminalUpdate: _terminal,
    v2.TerminalOutputChunk: _terminal_output,
    v2.AvailableCommandsUpdate: _commands,
    v2.ConfigOptionUpdate: _options,
    v2.RunningStateUpdate: _state,
    v2.RequiresActionStateUpdate: _state,
    v2.UnknownStateUpdate: _state,
    v2.IdleStateUpdate: _state,
}
events_from_update: UpdateReader = update_reader(v2, READERS, _unknown)


# Calls an agent of version 2.


class AgentAdapterV2(AgentAdapter):
    """Calls an agent of version 2."""

    version: ClassVar[ProtocolVersion] = 2
    types = v2
    method_names: ClassVar[Mapping[str, str]] = {
        "load_session": "resume_session",
        "set_session_mode": "set_session_config_option",
        "authenticate": "login",
        "providers": "list_providers",
    }
    echoes_prompts = True
    events_from_update: UpdateReader = staticmethod(events_from_update)
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]] = staticmethod(options_from_wire)
    content_to_wire: Callable[[ContentBlock], Any] = staticmethod(content_to_wire)
    remote: v2.RemoteAgent

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.info
        return Implementation(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        methods = map(_auth_method, self.remote.initialized.auth_methods)
        return tuple(method for method in methods if method is not None)

    def supports_content(self, kind: str) -> bool:
        session = self.remote.initialized.capabilities.session
        prompt = None if session is None else session.prompt
        match kind:
            case "image":
                return prompt is not None and prompt.image is not None
            case "audio":
                return prompt is not None and prompt.audio is not None
            case "resource":
                return prompt is not None and prompt.embedded_context is not None
            case _:
                return kind in ("text", "link")

    @property
    def mcp_transports(self) -> frozenset[str]:
        session = self.remote.initialized.capabilities.session
        mcp = None if session is None else session.mcp
        kinds = ("acp", "http", "stdio")
        return frozenset(kind for kind in kinds if getattr(mcp, kind, None) is not None)

    def opened_session(
        self,
        session_id: str,
        response: v2.NewSessionResponse | v2.ResumeSessionResponse | v2.ForkSessionResponse,
    ) -> OpenedSession:
        return OpenedSession(
            session_id=session_id,
            options=options_from_wire(response.config_options) or None,
            commands=commands_from_wire(response.available_commands) or None,
        )

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        request = v2.ResumeSessionRequest(
            session_id=session_id,
            replay_from=v2.ReplayFromStart() if replay else None,
            **self.setup_to_wire(setup),
        )
        response = await self.remote.resume_session(request, opened=opened)
        return self.opened_session(session_id, response)

    def state_of(self, response: v2.SessionStatusResponse) -> StateChanged | None:
        return None if response.state is None else state_from_wire(response.state)

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> None:
        blocks = [content_to_wire(content) for content in contents]
        await self.remote.prompt(
            v2.PromptRequest(session_id=session_id, prompt=blocks, meta=meta),
            inserted=lambda response: inserted(response.message_id),
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v2.CancelSessionNotification(session_id=session_id))

    async def authenticate(self, method_id: str) -> None:
        await self.remote.login(v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v2.LogoutAuthRequest())

    def server_to_wire(self, server: Any) -> Any:
        if isinstance(server, McpServerSse):
            raise LocalProtocolError(
                f"The MCP server {excerpt(server.name)!r} uses SSE, which protocol version 2 does "
                "not support: use streamable HTTP, or protocol version 1"
            )
        return super().server_to_wire(server)


def _auth_method(method: v2.AuthMethod) -> AuthMethod | None:
    match method:
        case v2.AuthMethodTerminal():
            return AuthMethod(
                id=method.method_id,
                name=method.name,
                description=method.description,
                terminal=True,
                args=tuple(method.args),
                env=tuple((variable.name, variable.value) for variable in method.env),
            )
        case v2.AuthMethodAgent():
            return AuthMethod(id=method.method_id, name=method.name, description=method.description)
        case Unknown():
            return None


# Serves the requests of an agent of version 2.


class ClientRoleV2(SharedClientRole, v2.ClientRole):
    """The client role of version 2."""

    types = v2
    events_from_update: UpdateReader = staticmethod(events_from_update)

    def capabilities(self) -> v2.ClientCapabilities:
        terminal = v2.TerminalAuthCapabilities() if self._handlers.terminal_login else None
        return v2.ClientCapabilities(
            auth=v2.ClientAuthCapabilities(terminal=terminal) if terminal else None,
            elicitation=self._elicitation_capabilities(),
        )

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        stream = self._stream(params.session_id)
        setup = self._handlers.find_setup(params.session_id)
        cwd = "/" if setup is None else setup.cwd
        call_id: str | None = None
        command: str | None = None
        match params.subject:
            case v2.ToolCallPermissionSubject(tool_call=details):
                call_id = details.tool_call_id
                # The request can change the tool call (R-PERM-10).
                call = apply_tool_call(details, stream.transcript)
                if call is not None:
                    stream.publish(call)
            case v2.CommandPermissionSubject():
                subject = params.subject
                call_id, command, cwd = subject.tool_call_id, subject.command, subject.cwd
            case _:
                pass  # a request without a known subject (R-PERM-09, R-PERM-13)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd=cwd,
            title=params.title,
            options=self._permission_options(params.options),
            description=params.description,
            tool_call=None if call_id is None else stream.transcript.tool_call(call_id),
            command=command,
        )
        return await self._decide(stream, request)
