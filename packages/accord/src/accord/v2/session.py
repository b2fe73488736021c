"""Sessions of version 2: MCP servers, the requests that open and change sessions, and prompts."""

from __future__ import annotations

from typing import (
    Annotated,
    ClassVar,
    Literal,
    TypeAlias,
)

from msgspec import (
    Meta,
)

from accord.v2.content import (
    AbsolutePath,
    ContentBlock,
    DateTime,
    MessageId,
    RequestId,
    SessionId,
    SessionListCursor,
    TerminalId,
    ToolCallId,
    Uri,
)
from accord.v2.updates import (
    AvailableCommand,
    SessionConfigOption,
    SessionState,
)
from accord.wire.base import (
    Lenient,
    LenientList,
    NullAsEmpty,
    Open,
    OpenEnum,
    Unstable,
    Wire,
)
from accord.wire.protocol import (
    Method,
)
from accord.wire.shared import (
    McpServerAcpId,
)

__all__ = (
    "ArchiveSessionRequest",
    "ArchiveSessionResponse",
    "CancelRequestNotification",
    "CancelSessionNotification",
    "CancelTerminalRequest",
    "CancelTerminalResponse",
    "CancelToolCallRequest",
    "CancelToolCallResponse",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "EnvVariable",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "HttpHeader",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "McpAcpCapabilities",
    "McpCapabilities",
    "McpHttpCapabilities",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerStdio",
    "McpStdioCapabilities",
    "NewSessionRequest",
    "NewSessionResponse",
    "PromptAudioCapabilities",
    "PromptCapabilities",
    "PromptEmbeddedContextCapabilities",
    "PromptImageCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ReplayFrom",
    "ReplayFromStart",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionArchiveCapabilities",
    "SessionArchiveFilter",
    "SessionCapabilities",
    "SessionDeleteCapabilities",
    "SessionForkCapabilities",
    "SessionInfo",
    "SessionStatus",
    "SessionStatusCapabilities",
    "SessionStatusRequest",
    "SessionStatusResponse",
    "SessionSystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities",
    "SessionTitleCapabilities",
    "SetSessionTitleRequest",
    "SetSessionTitleResponse",
    "SystemPrompt",
    "SystemPromptMode",
    "UnarchiveSessionRequest",
    "UnarchiveSessionResponse",
)


# The MCP servers of a session.


class EnvVariable(Wire):
    """One variable of the environment of a process."""

    name: str
    value: str


class HttpHeader(Wire):
    """One header of HTTP requests."""

    name: str
    value: str


class McpServerHttp(Wire, tag_field="type", tag="http"):
    """An MCP server that uses streamable HTTP."""

    name: str
    url: Uri
    headers: NullAsEmpty[list[HttpHeader]] = []


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server in the client or a proxy, used through this connection."""

    __unstable__: ClassVar[bool] = True

    name: str
    server_id: McpServerAcpId


class McpServerStdio(Wire, tag_field="type", tag="stdio"):
    """An MCP server that the agent starts."""

    name: str
    command: AbsolutePath
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []


McpServer: TypeAlias = Open[McpServerHttp | Unstable[McpServerAcp] | McpServerStdio]


class McpStdioCapabilities(Wire):
    """MCP servers may be started as processes."""


class McpHttpCapabilities(Wire):
    """MCP servers may use HTTP."""


class McpAcpCapabilities(Wire):
    """MCP servers may be used through this connection."""

    __unstable__: ClassVar[bool] = True


class McpCapabilities(Wire):
    """The transports of MCP servers that the agent supports."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    http: Lenient[McpHttpCapabilities | None] = None
    acp: Unstable[Lenient[McpAcpCapabilities | None]] = None


# Sessions: created, resumed, listed, closed and archived.

SystemPromptMode: TypeAlias = OpenEnum[Literal["append", "override"]]


class SystemPrompt(Wire):
    """A system prompt of the client; an unknown mode is an error."""

    __unstable__: ClassVar[bool] = True

    mode: SystemPromptMode
    content: list[ContentBlock]


class NewSessionRequest(Wire):
    """Creates a session."""

    cwd: AbsolutePath
    additional_directories: NullAsEmpty[list[AbsolutePath]] = []
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    system_prompt: Unstable[SystemPrompt | None] = None


class NewSessionResponse(Wire):
    """The session is open, and idle until a state update changes that."""

    session_id: SessionId
    config_options: Lenient[LenientList[SessionConfigOption]] = []
    available_commands: Lenient[LenientList[AvailableCommand]] = []


class ReplayFromStart(Wire, tag_field="type", tag="start"):
    """Replay the whole conversation."""


# A place to replay from that the agent does not know is an error.
ReplayFrom: TypeAlias = Open[ReplayFromStart]


class ResumeSessionRequest(Wire):
    """Resumes a session; `mcp_servers` is complete, and no earlier ones are restored."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: NullAsEmpty[list[AbsolutePath]] = []
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    replay_from: ReplayFrom | None = None
    system_prompt: Unstable[SystemPrompt | None] = None


class ResumeSessionResponse(Wire):
    """The session is open; its replay and its state were sent before this response."""

    config_options: Lenient[LenientList[SessionConfigOption]] = []
    available_commands: Lenient[LenientList[AvailableCommand]] = []


class ForkSessionRequest(Wire):
    """Creates a session with the conversation of another one, which does not change."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: NullAsEmpty[list[AbsolutePath]] = []
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    system_prompt: SystemPrompt | None = None


class ForkSessionResponse(Wire):
    """The new session."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    config_options: Lenient[LenientList[SessionConfigOption]] = []
    available_commands: Lenient[LenientList[AvailableCommand]] = []


SessionArchiveFilter: TypeAlias = OpenEnum[Literal["exclude", "include", "only"]]


class ListSessionsRequest(Wire):
    """Asks for one page of sessions; an empty `cursor` is a cursor, too."""

    cwd: AbsolutePath | None = None
    cursor: SessionListCursor | None = None
    archived: Unstable[SessionArchiveFilter | None] = None


class SessionInfo(Wire):
    """A session in the list; `updated_at` is RFC 3339."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: NullAsEmpty[list[AbsolutePath]] = []
    title: Lenient[str | None] = None
    updated_at: Lenient[DateTime | None] = None
    archived: Unstable[Lenient[bool | None]] = None


class ListSessionsResponse(Wire):
    """One page; without `next_cursor` it is the last."""

    sessions: Lenient[LenientList[SessionInfo]]
    next_cursor: SessionListCursor | None = None


class DeleteSessionRequest(Wire):
    """Deletes a session permanently."""

    session_id: SessionId


class DeleteSessionResponse(Wire):
    """The session is deleted."""


class CloseSessionRequest(Wire):
    """Ends a session's work and frees its resources; it can be resumed."""

    session_id: SessionId


class CloseSessionResponse(Wire):
    """The session is closed; no more updates arrive for it."""


class ArchiveSessionRequest(Wire):
    """Archives a session, after closing it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class ArchiveSessionResponse(Wire):
    """The session is archived."""

    __unstable__: ClassVar[bool] = True


class UnarchiveSessionRequest(Wire):
    """Unarchives a session without resuming it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class UnarchiveSessionResponse(Wire):
    """The session is not archived."""

    __unstable__: ClassVar[bool] = True


# Counts as "saved" when it is not known.
SessionStatus: TypeAlias = OpenEnum[Literal["open", "saved"]]


class SessionStatusRequest(Wire):
    """Asks whether a session is in memory, and changes nothing."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class SessionStatusResponse(Wire):
    """The status of a session; `state` is a snapshot, and `None` does not mean idle."""

    __unstable__: ClassVar[bool] = True

    status: SessionStatus
    state: Lenient[SessionState | None] = None


class SetSessionTitleRequest(Wire):
    """Sets the title of a session."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    title: str


class SetSessionTitleResponse(Wire):
    """The title as stored, which clients show."""

    __unstable__: ClassVar[bool] = True

    title: str


class SessionDeleteCapabilities(Wire):
    """Sessions can be deleted."""


class SessionAdditionalDirectoriesCapabilities(Wire):
    """Sessions can have directories in addition to `cwd`."""


class SessionSystemPromptOverrideCapabilities(Wire):
    """The client's system prompt can replace the agent's."""

    __unstable__: ClassVar[bool] = True


class SessionSystemPromptModeCapabilities(Wire):
    """The modes of system prompts in addition to appending."""

    __unstable__: ClassVar[bool] = True

    override: Lenient[SessionSystemPromptOverrideCapabilities | None] = None


class SessionSystemPromptCapabilities(Wire):
    """The client can send a system prompt."""

    __unstable__: ClassVar[bool] = True

    mode: Lenient[SessionSystemPromptModeCapabilities | None] = None


class SessionForkCapabilities(Wire):
    """Sessions can be forked."""

    __unstable__: ClassVar[bool] = True


class SessionArchiveCapabilities(Wire):
    """Sessions can be archived."""

    __unstable__: ClassVar[bool] = True


class SessionStatusCapabilities(Wire):
    """The client can ask for the status of a session."""

    __unstable__: ClassVar[bool] = True


class SessionTitleCapabilities(Wire):
    """The client can set titles of sessions."""

    __unstable__: ClassVar[bool] = True


class SessionCapabilities(Wire):
    """The optional features of sessions."""

    prompt: Lenient[PromptCapabilities | None] = None
    mcp: Lenient[McpCapabilities | None] = None
    delete: Lenient[SessionDeleteCapabilities | None] = None
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    system_prompt: Unstable[Lenient[SessionSystemPromptCapabilities | None]] = None
    fork: Unstable[Lenient[SessionForkCapabilities | None]] = None
    archive: Unstable[Lenient[SessionArchiveCapabilities | None]] = None
    status: Unstable[Lenient[SessionStatusCapabilities | None]] = None
    title: Unstable[Lenient[SessionTitleCapabilities | None]] = None


# Prompts: the user's messages to the agent.


class PromptRequest(Wire):
    """A message of the user."""

    session_id: SessionId
    prompt: Annotated[list[ContentBlock], Meta(min_length=1)]


class PromptResponse(Wire):
    """The prompt is inserted in the conversation; state updates report the end of its work."""

    message_id: MessageId


class PromptImageCapabilities(Wire):
    """Prompts may contain images."""


class PromptAudioCapabilities(Wire):
    """Prompts may contain audio."""


class PromptEmbeddedContextCapabilities(Wire):
    """Prompts may contain resources with their content."""


class PromptCapabilities(Wire):
    """The kinds of content that a prompt may have in addition to text and links."""

    image: Lenient[PromptImageCapabilities | None] = None
    audio: Lenient[PromptAudioCapabilities | None] = None
    embedded_context: Lenient[PromptEmbeddedContextCapabilities | None] = None


# Cancellation of a request, a session's work, a tool call or a terminal.


class CancelRequestNotification(Wire):
    """Cancels a request that this side sent; it still gets a response."""

    request_id: RequestId


class CancelSessionNotification(Wire):
    """Cancels the foreground work of a session and the prompts that it still holds."""

    session_id: SessionId


class CancelToolCallRequest(Wire):
    """Cancels one tool call that advertises it."""

    session_id: SessionId
    tool_call_id: ToolCallId


class CancelToolCallResponse(Wire):
    """The cancel is accepted; a later update of the tool call has the final status."""


class CancelTerminalRequest(Wire):
    """Stops the command of one terminal that advertises it."""

    session_id: SessionId
    terminal_id: TerminalId


class CancelTerminalResponse(Wire):
    """The cancel is accepted; a later update of the terminal has the exit status."""


METHODS: tuple[Method, ...] = (
    Method(
        name="session/new",
        call="new_session",
        doc="Create a session.",
        params=NewSessionRequest,
        result=NewSessionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/resume",
        call="resume_session",
        doc="Open a stored session: replay if requested, send the state, return (R-SESS-29).",
        params=ResumeSessionRequest,
        result=ResumeSessionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/fork",
        call="fork_session",
        doc="Create a session that continues from another one, which does not change.",
        params=ForkSessionRequest,
        result=ForkSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.fork",
    ),
    Method(
        name="session/list",
        call="list_sessions",
        doc="List stored sessions, a page at a time.",
        params=ListSessionsRequest,
        result=ListSessionsResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/status",
        call="session_status",
        doc="Return whether a session is open or stored.",
        params=SessionStatusRequest,
        result=SessionStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.session.status",
    ),
    Method(
        name="session/set_title",
        call="set_session_title",
        doc="Store a title and return it as stored.",
        params=SetSessionTitleRequest,
        result=SetSessionTitleResponse,
        to="agent",
        unstable=True,
        gate="agent.session.title",
    ),
    Method(
        name="session/archive",
        call="archive_session",
        doc="Archive a session; succeeds if it is archived already.",
        params=ArchiveSessionRequest,
        result=ArchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.archive",
    ),
    Method(
        name="session/unarchive",
        call="unarchive_session",
        doc="Unarchive a session.",
        params=UnarchiveSessionRequest,
        result=UnarchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.archive",
    ),
    Method(
        name="session/delete",
        call="delete_session",
        doc="Delete a session permanently; succeeds for an unknown one.",
        params=DeleteSessionRequest,
        result=DeleteSessionResponse,
        to="agent",
        gate="agent.session.delete",
    ),
    Method(
        name="session/close",
        call="close_session",
        doc="Cancel the work of a session and release it.",
        params=CloseSessionRequest,
        result=CloseSessionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/prompt",
        call="prompt",
        doc="Insert the user's message; return its id once it is inserted (R-PROMPT-09).",
        params=PromptRequest,
        result=PromptResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/cancel",
        call="cancel",
        caller_doc="Cancel the foreground work of a session.",
        params=CancelSessionNotification,
        to="agent",
        gate="agent.session",
    ),
    # Needs the capability `cancel` of that very tool call or terminal.
    Method(
        name="tool_call/cancel",
        call="cancel_tool_call",
        caller_doc="Cancel one tool call; return when this is accepted.",
        params=CancelToolCallRequest,
        result=CancelToolCallResponse,
        to="agent",
    ),
    Method(
        name="terminal/cancel",
        call="cancel_terminal",
        caller_doc="Stop one terminal; return when this is accepted.",
        params=CancelTerminalRequest,
        result=CancelTerminalResponse,
        to="agent",
    ),
    Method(
        name="$/cancel_request",
        call="cancel_request",
        params=CancelRequestNotification,
        to="protocol",
    ),
)
