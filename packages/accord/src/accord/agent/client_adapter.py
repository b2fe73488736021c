"""How sessions call the client, in either version.

`ClientAdapter` is the interface of sessions. `SharedClientAdapter` has the requests that both
versions send alike; the modules `v1` and `v2` complete it. `to_update` and the functions after it
encode the updates that both versions write alike: all but messages and tool calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from os import urandom
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from accord.agent.updates import (
    CompactionSummaryUpdate,
    CompactionUpdate,
    MessageRole,
    NoticeUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    SessionMessageUpdate,
    SubagentUpdate,
    TurnEnded,
    Update,
)
from accord.connection.routes import trace
from accord.errors import FrameTooLarge, RequestError
from accord.text import lenient_json
from accord.types.content import ContentBlock
from accord.types.session import (
    AuthAccount,
    AuthState,
    Cost,
    Implementation,
    SelectOption,
    SessionOption,
    StopReason,
    TokenUsage,
)
from accord.version import ProtocolVersion
from accord.wire.codec import convert, encode

if TYPE_CHECKING:
    from accord.agent.updates import PermissionQuestion
    from accord.agent.work import Background
    from accord.connection.connection import Connection
    from accord.mcp.consumer import McpOutcome
    from accord.wire.shared import MessageMcpRequest


class ClientAdapter(ABC):
    """Calls the client in its version."""

    version: ProtocolVersion
    capabilities: Any  # of the client, in its version's type
    client_info: Implementation | None = None
    # A permission request with the outcome `cancelled` means that the turn is cancelled.
    cancelled_permission_cancels_turn: bool = False

    @abstractmethod
    def send_message_chunk(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send a chunk of a message; waits while the client reads slower."""

    def text_stream(  # the base class has none: every chunk takes `send_message_chunk`
        self, session_id: str, role: MessageRole, message_id: str
    ) -> TextStream | None:
        """Return what sends the text chunks of a message faster, if this adapter can."""
        return None

    @abstractmethod
    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        """Send an update, in one or more notifications, each with the `_meta`."""

    @abstractmethod
    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        """Ask the user; return the id of the chosen option, None if none was chosen."""

    async def send_state(  # noqa: B027  # version 1 has no states
        self, session_id: str, state: str, background: Background
    ) -> None:
        """Send the state of a session and its background work, if the version has states."""

    async def send_turn_end(  # noqa: B027  # as above
        self,
        session_id: str,
        ended: TurnEnded,
        background: Background,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Send the end of a turn and its stop reason, if the version has states."""

    # What the client supports.

    reads_files: bool = False
    writes_files: bool = False
    has_terminals: bool = False
    shows_terminals: bool = False  # the agent's own

    # Without these, the content is shown in another way or not at all.

    shows_notices: bool = True
    shows_subagents: bool = False

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        """Return the text of a file in the client, including unsaved changes."""
        raise NotImplementedError

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        """Replace the text of a file in the client."""
        raise NotImplementedError

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        """Start a command in the client; return the id of its terminal."""
        raise NotImplementedError

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        """Wait for a command in the client; return its exit code or signal."""
        raise NotImplementedError

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        """Return the output of a terminal in the client, and whether it is truncated."""
        raise NotImplementedError

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        """Kill a command in the client."""
        raise NotImplementedError

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Release a terminal in the client."""
        raise NotImplementedError

    @abstractmethod
    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        """Ask the user to fill in a form; return the values, None if they do not."""

    @abstractmethod
    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        """Ask the user to open a web page; return whether they agreed."""

    @abstractmethod
    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Report that an elicitation by URL is complete."""

    @abstractmethod
    async def call_extension(self, method: str, params: Any) -> Any:
        """Send an extension request; return its result as JSON."""

    @abstractmethod
    async def notify_extension(self, method: str, params: Any) -> None:
        """Send an extension notification."""

    async def message_mcp(
        self, request: MessageMcpRequest, settled: Callable[[], None]
    ) -> McpOutcome:
        """Send a request to an MCP server of the client; return its outcome.

        `settled` is called for the response, before any later message is handled.
        """
        raise NotImplementedError

    @abstractmethod
    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        """Send the auth status, if both sides support it."""

    @abstractmethod
    def cancel_prompts(self, session_id: str) -> None:
        """Cancel the prompt requests of a session, including queued ones."""

    def drop_session(self, session_id: str) -> None:  # noqa: B027  # version 2 has no such state
        """Drop the state of a session that has ended."""

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the client has disconnected."""

    @abstractmethod
    def is_clients_error(self, error: RequestError) -> bool:
        """Return whether an error is the client's response to a request of the agent."""

    @abstractmethod
    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, at most until the connection ends."""

    @abstractmethod
    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        """Return the options that the client supports."""

    def stop_reason(self, reason: StopReason) -> str:
        """Return a stop reason in terms of the version."""
        return reason


def mode_of(options: tuple[SessionOption, ...]) -> SelectOption | None:
    """Return the option of category `mode`."""
    for option in options:
        if isinstance(option, SelectOption) and option.category == "mode":
            return option
    return None


class SharedClientAdapter(ClientAdapter):
    """Calls the client in either version; `types` is the package of the version."""

    def __init__(self, types: VersionTypes, context: Any) -> None:
        self._types = types
        self._context = context  # of `initialize`
        self._client = context.client

    async def flush_tool_content(self, session_id: str) -> None:
        """Send the content of tool calls that waits, as the next message may refer to it."""

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        await self.flush_tool_content(session_id)
        form = self._types.ElicitationFormMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            requested_schema=convert(schema, self._types.ElicitationSchema),
        )
        answer = await self._client.create_elicitation(form)
        if isinstance(answer, self._types.ElicitationAcceptAction):
            return answer.content or {}
        return None  # R-ELIC-26, R-ELIC-34

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        await self.flush_tool_content(session_id)
        page = self._types.ElicitationUrlMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            elicitation_id=elicitation_id,
            url=url,
        )
        answer = await self._client.create_elicitation(page)
        return isinstance(answer, self._types.ElicitationAcceptAction)

    async def complete_elicitation(self, elicitation_id: str) -> None:
        await self._client.complete_elicitation(
            self._types.CompleteElicitationNotification(elicitation_id=elicitation_id)
        )

    async def call_extension(self, method: str, params: Any) -> Any:
        await self._flush_tool_content_for(params)
        return await self._client.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any) -> None:
        await self._flush_tool_content_for(params)
        await self._client.notify_extension(method, params)

    async def message_mcp(
        self, request: MessageMcpRequest, settled: Callable[[], None]
    ) -> McpOutcome:
        return await self._client.message_mcp(request, settled)

    async def _flush_tool_content_for(self, params: Any) -> None:
        session_id = params.get("sessionId") if lenient_json.is_object(params) else None
        if isinstance(session_id, str):
            await self.flush_tool_content(session_id)

    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        if self._client.supports("auth_status_update"):
            await self._client.auth_status_update(
                self._types.AuthStatusUpdateNotification(
                    state=state, accounts=accounts_to_wire(self._types, accounts)
                )
            )

    def cancel_prompts(self, session_id: str) -> None:
        self._context.cancel_prompts(session_id)

    @property
    def is_closed(self) -> bool:
        return self._context.has_ended

    def is_clients_error(self, error: RequestError) -> bool:
        return error.origin is self._context.connection

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.start(work)


# The text chunks of one message: what is equal in all of them is encoded once.

_METHOD = "session/update"

_encode = msgspec.json.Encoder().encode  # of `encode`, without its treatment of odd texts


class TextStream:
    """Sends chunks of one message as frames, the same that `send_message_chunk` makes.

    `params_for` returns the params for a text. Sessions in `blocked` have content that must be
    sent first.
    """

    __slots__ = ("_blocked", "_flow", "_head", "_outbox", "_peer", "_session_id", "_tail", "role")

    def __init__(
        self,
        connection: Connection,
        session_id: str,
        role: MessageRole,
        params_for: Callable[[str], Any],
        blocked: Collection[str],
    ) -> None:
        self.role = role
        self._peer = connection.peer
        self._outbox = connection.outbox
        self._flow = connection.flow
        self._session_id = session_id
        self._blocked = blocked
        mark = urandom(16).hex()  # occurs nowhere else
        params = encode(params_for(mark))
        head, _, tail = params.partition(b'"%b"' % mark.encode())
        self._head = b'{"jsonrpc":"2.0","method":"session/update","params":' + head
        self._tail = tail + b"}"

    def send(self, text: str) -> bool | None:
        """Send a chunk; return whether the sender must wait, None if the chunk was not sent.

        All in one place, and not by calls of the objects below: agents stream many chunks.
        """
        if trace() is not None or (self._blocked and self._session_id in self._blocked):
            return None
        try:
            frame = self._head + _encode(text) + self._tail
        except UnicodeEncodeError:  # a lone surrogate
            return None
        outbox, peer = self._outbox, self._peer
        size = len(frame)
        if outbox.closed is not None:
            raise outbox.closed
        if size > peer.frame_bytes:
            raise FrameTooLarge(_METHOD, size, peer.frame_bytes)
        peer.frames.append(frame)
        return outbox.frames_added(size)

    def takes(self, text: str) -> bool:
        """Return whether `send` would send a chunk now."""
        if trace() is not None or (self._blocked and self._session_id in self._blocked):
            return False
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:  # a lone surrogate
                return False
        return True

    async def wait(self) -> None:
        """Wait while the client reads slower."""
        with self._flow.sending():
            await self._outbox.wait_for_room()


# Updates that both versions encode alike: all but messages and tool calls.


def to_update(
    types: VersionTypes, content_to_wire: Callable[[ContentBlock], Any], update: Update
) -> Any:
    """Return an update in a version's type; None for a kind that is encoded elsewhere."""
    match update:
        case NoticeUpdate(severity, title, description):
            return types.Notice(severity=severity, title=title, description=description)
        case CompactionUpdate(id, status, error, summary):
            return types.CompactionUpdate(
                compaction_id=id,
                status=status,
                error=error,
                summary=UNSET if summary is UNSET else [content_to_wire(part) for part in summary],
            )
        case CompactionSummaryUpdate(id, content):
            return types.CompactionSummaryChunk(compaction_id=id, content=content_to_wire(content))
        case PlanMarkdownUpdate(id, text):
            return types.PlanUpdate(plan=types.PlanMarkdown(plan_id=id, content=text))
        case PlanFileUpdate(id, uri):
            return types.PlanUpdate(plan=types.PlanFile(plan_id=id, uri=uri))
        case PlanRemoved(id):
            return types.PlanRemoved(plan_id=id)
        case SubagentUpdate():
            return _subagent(types, update)
        case SessionMessageUpdate():
            return types.SessionMessage(
                message_id=update.id,
                sender_session_id=update.sender,
                recipient_session_id=update.recipient,
                sender_message_id=update.sender_message_id,
                recipient_message_id=update.recipient_message_id,
                content=[content_to_wire(part) for part in update.content],
            )
        case _:
            return None


def _subagent(types: VersionTypes, update: SubagentUpdate) -> Any:
    changes: dict[str, Any] = {}
    if update.additional_directories is not UNSET:
        changes["additional_directories"] = list(update.additional_directories)
    if update.cancellable is not UNSET:
        cancel = types.SessionCancelCapabilities() if update.cancellable else None
        changes["capabilities"] = types.SubagentSessionCapabilities(cancel=cancel)
    if update.state is not UNSET:
        changes["state"] = _state(types, update)
    return types.SubagentUpdate(
        session_id=update.id,
        title=update.title,
        description=update.description,
        cwd=update.cwd,
        **changes,
    )


def _state(types: VersionTypes, update: SubagentUpdate) -> Any:
    known: dict[str, Any] = {}
    if hasattr(types, "BackgroundTerminal"):  # version 2
        known["background"] = background_to_wire(types, update.background)
    match update.state:
        case "idle":
            usage = None if update.tokens is None else usage_to_wire(types, update.tokens)
            return types.IdleState(stop_reason=update.stop_reason, usage=usage, **known)
        case "requires_action":
            return types.RequiresActionState(**known)
        case _:
            return types.RunningState(**known)


def usage_to_wire(types: VersionTypes, tokens: TokenUsage) -> Any:
    """Return token usage in a version's type."""
    return types.Usage(
        total_tokens=tokens.total,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought,
        cached_read_tokens=tokens.cached_read,
        cached_write_tokens=tokens.cached_write,
    )


def cost_to_wire(types: VersionTypes, cost: Cost | None) -> Any:
    """Return a cost in a version's type."""
    return None if cost is None else types.Cost(amount=cost.amount, currency=cost.currency)


def option_to_wire(
    types: VersionTypes, option: SessionOption, *, id_field: str, group_field: str
) -> Any:
    """Return a config option in a version's type; the versions name two fields differently."""
    common: dict[str, Any] = {
        id_field: option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
    }
    if not isinstance(option, SelectOption):
        return types.SessionConfigBoolean(current_value=option.value, **common)
    groups: dict[str | None, list[Any]] = {}
    for choice in option.choices:
        groups.setdefault(choice.group, []).append(
            types.SessionConfigSelectOption(
                value=choice.value, name=choice.name, description=choice.description
            )
        )
    options = groups.get(None, [])
    if not set(groups) <= {None}:
        options = [
            types.SessionConfigSelectGroup(
                **{group_field: name or "other"}, name=name or "Other", options=choices
            )
            for name, choices in groups.items()
        ]
    return types.SessionConfigSelect(current_value=option.value, options=options, **common)


def accounts_to_wire(types: VersionTypes, accounts: Iterable[AuthAccount]) -> list[Any]:
    """Return accounts in a version's type."""
    return [
        types.AuthAccount(
            label=account.label,
            active=account.active,
            name=account.name,
            email=account.email,
            organization=account.organization,
        )
        for account in accounts
    ]


def background_to_wire(types: Any, items: Iterable[tuple[str, str]]) -> list[Any]:
    """Return background work in the types of version 2, the only one that has it."""
    work: list[Any] = []
    for kind, entity in items:
        match kind:
            case "terminal":
                work.append(types.BackgroundTerminal(terminal_id=entity))
            case "subagent":
                work.append(types.BackgroundSubagent(session_id=entity))
            case _:
                work.append(types.BackgroundToolCall(tool_call_id=entity))
    return work


def plan_lines(update: PlanMarkdownUpdate | PlanFileUpdate) -> list[str]:
    """Return the lines of a plan, for clients that only support plans with entries."""
    if isinstance(update, PlanFileUpdate):
        return [update.uri]
    lines = (line.strip().lstrip("#-* ").strip() for line in update.text.splitlines())
    return [line for line in lines if line]


# The types that both versions have, as code for both versions uses them.


class VersionTypes(Protocol):
    """The package of a version, `accord.v1` or `accord.v2`: its types that are built alike."""

    ArchiveSessionResponse: type[Any]
    AuthAccount: type[Any]
    AuthMethodAgent: type[Any]
    AuthMethodTerminal: type[Any]
    AuthStatusResponse: type[Any]
    AuthStatusUpdateNotification: type[Any]
    CompactionSummaryChunk: type[Any]
    CompactionUpdate: type[Any]
    CompleteElicitationNotification: type[Any]
    Cost: type[Any]
    DeleteSessionResponse: type[Any]
    DisableProviderResponse: type[Any]
    ElicitationAcceptAction: type[Any]
    ElicitationFormMode: type[Any]
    ElicitationSchema: type[Any]
    ElicitationUrlMode: type[Any]
    ForkSessionResponse: type[Any]
    IdleState: type[Any]
    Implementation: type[Any]
    ListProvidersResponse: type[Any]
    ListSessionsResponse: type[Any]
    McpServerAcp: type[Any]
    McpServerHttp: type[Any]
    McpServerStdio: type[Any]
    NewSessionResponse: type[Any]
    Notice: type[Any]
    PlanFile: type[Any]
    PlanMarkdown: type[Any]
    PlanRemoved: type[Any]
    PlanUpdate: type[Any]
    PromptRequest: type[Any]
    ProviderCurrentConfig: type[Any]
    ProviderInfo: type[Any]
    RequiresActionState: type[Any]
    RunningState: type[Any]
    SessionCancelCapabilities: type[Any]
    SessionConfigBoolean: type[Any]
    SessionConfigSelect: type[Any]
    SessionConfigSelectGroup: type[Any]
    SessionConfigSelectOption: type[Any]
    SessionInfo: type[Any]
    SessionMessage: type[Any]
    SessionSystemPromptCapabilities: type[Any]
    SessionSystemPromptModeCapabilities: type[Any]
    SessionSystemPromptOverrideCapabilities: type[Any]
    SetProviderResponse: type[Any]
    SetSessionTitleResponse: type[Any]
    SubagentSessionCapabilities: type[Any]
    SubagentUpdate: type[Any]
    TextContent: type[Any]
    UnarchiveSessionResponse: type[Any]
    Usage: type[Any]
