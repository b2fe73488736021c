"""Sessions of version 1: MCP servers, the requests that open and change sessions, and turns."""

from __future__ import annotations

from typing import (
    ClassVar,
    Literal,
    TypeAlias,
)

from accord.v1.client_requests import (
    EnvVariable,
)
from accord.v1.content import (
    ContentBlock,
    RequestId,
    SessionId,
    SessionModeId,
)
from accord.v1.updates import (
    SessionConfigOption,
    Usage,
)
from accord.wire.base import (
    ByShape,
    Lenient,
    LenientList,
    NullAsEmpty,
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
    "CancelNotification",
    "CancelRequestNotification",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "HttpHeader",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "NewSessionRequest",
    "NewSessionResponse",
    "PromptRequest",
    "PromptResponse",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionArchiveCapabilities",
    "SessionArchiveFilter",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionDeleteCapabilities",
    "SessionForkCapabilities",
    "SessionInfo",
    "SessionListCapabilities",
    "SessionMode",
    "SessionModeState",
    "SessionResumeCapabilities",
    "SessionStatus",
    "SessionStatusCapabilities",
    "SessionStatusRequest",
    "SessionStatusResponse",
    "SessionSystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities",
    "SessionTitleCapabilities",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "SetSessionTitleRequest",
    "SetSessionTitleResponse",
    "StopReason",
    "SystemPrompt",
    "SystemPromptMode",
    "UnarchiveSessionRequest",
    "UnarchiveSessionResponse",
)


# The MCP servers of a session.


class HttpHeader(Wire):
    """One header, sent with every request."""

    name: str
    value: str


class McpServerHttp(Wire, tag_field="type", tag="http"):
    """An MCP server that uses streamable HTTP."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerSse(Wire, tag_field="type", tag="sse"):
    """An MCP server that uses server-sent events, an older transport."""

    name: str
    url: str
    headers: NullAsEmpty[list[HttpHeader]]


class McpServerAcp(Wire, tag_field="type", tag="acp"):
    """An MCP server of the sender, used with `mcp/message`."""

    __unstable__: ClassVar[bool] = True

    name: str
    server_id: McpServerAcpId  # unique on the connection


class McpServerStdio(Wire):
    """An MCP server that the agent starts and uses over stdin and stdout."""

    name: str
    command: str  # absolute path
    args: NullAsEmpty[list[str]]
    env: NullAsEmpty[list[EnvVariable]]


McpServer: TypeAlias = ByShape[
    McpServerHttp | McpServerSse | Unstable[McpServerAcp] | McpServerStdio
]


# Sessions: created, listed, changed and closed.

SystemPromptMode: TypeAlias = OpenEnum[Literal["append", "override"]]
SessionArchiveFilter: TypeAlias = OpenEnum[Literal["exclude", "include", "only"]]
SessionStatus: TypeAlias = OpenEnum[Literal["open", "saved"]]


class SystemPrompt(Wire):
    """The client's instructions to the model: at least one block, of text only."""

    __unstable__: ClassVar[bool] = True

    mode: SystemPromptMode
    content: list[ContentBlock]


class SessionMode(Wire):
    """A mode that the user can select."""

    id: SessionModeId
    name: str
    description: Lenient[str | None] = None


class SessionModeState(Wire):
    """The modes of a session, and the current one."""

    current_mode_id: SessionModeId
    available_modes: Lenient[LenientList[SessionMode]]


class NewSessionRequest(Wire):
    """Creates a session that works in `cwd`; all paths are absolute."""

    cwd: str
    mcp_servers: NullAsEmpty[list[McpServer]]
    additional_directories: NullAsEmpty[list[str]] = []
    system_prompt: Unstable[SystemPrompt | None] = None


class NewSessionResponse(Wire):
    """The session is ready for prompts."""

    session_id: SessionId
    modes: Lenient[SessionModeState | None] = None
    config_options: Lenient[LenientList[SessionConfigOption] | None] = None


class LoadSessionRequest(Wire):
    """Opens a stored session; its history is sent as updates before the response."""

    session_id: SessionId
    cwd: str
    mcp_servers: NullAsEmpty[list[McpServer]]
    additional_directories: NullAsEmpty[list[str]] = []
    system_prompt: Unstable[SystemPrompt | None] = None


class LoadSessionResponse(Wire):
    """The session is ready for prompts; all of its history has been sent."""

    modes: Lenient[SessionModeState | None] = None
    config_options: Lenient[LenientList[SessionConfigOption] | None] = None


class ResumeSessionRequest(Wire):
    """Opens a stored session without its history."""

    session_id: SessionId
    cwd: str
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    additional_directories: NullAsEmpty[list[str]] = []
    system_prompt: Unstable[SystemPrompt | None] = None


class ResumeSessionResponse(Wire):
    """The session is ready for prompts."""

    modes: Lenient[SessionModeState | None] = None
    config_options: Lenient[LenientList[SessionConfigOption] | None] = None


class ForkSessionRequest(Wire):
    """Creates a session that begins as a copy of this one."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    cwd: str
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    additional_directories: NullAsEmpty[list[str]] = []
    system_prompt: SystemPrompt | None = None


class ForkSessionResponse(Wire):
    """The copy is ready for prompts; the original is unchanged."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId  # of the copy
    modes: Lenient[SessionModeState | None] = None
    config_options: Lenient[LenientList[SessionConfigOption] | None] = None


class ListSessionsRequest(Wire):
    """Asks for a page of sessions, those of one directory or all."""

    cwd: str | None = None
    cursor: str | None = None  # from the page before
    archived: Unstable[SessionArchiveFilter | None] = None


class SessionInfo(Wire):
    """A session in the list."""

    session_id: SessionId
    cwd: str
    additional_directories: Lenient[LenientList[str]] = []
    title: Lenient[str | None] = None
    updated_at: Lenient[str | None] = None  # ISO 8601
    archived: Unstable[Lenient[bool | None]] = None


class ListSessionsResponse(Wire):
    """A page of sessions; with `next_cursor`, more pages follow."""

    sessions: Lenient[LenientList[SessionInfo]]
    next_cursor: Lenient[str | None] = None


class DeleteSessionRequest(Wire):
    """Removes a session from the list permanently."""

    session_id: SessionId


class DeleteSessionResponse(Wire):
    """The session is no longer in the list, or never was."""


class CloseSessionRequest(Wire):
    """Cancels the work of a session and frees its resources; it stays in the list."""

    session_id: SessionId


class CloseSessionResponse(Wire):
    """The session is closed."""


class ArchiveSessionRequest(Wire):
    """Archives a session; an open one is closed first."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class ArchiveSessionResponse(Wire):
    """The session is archived, or was already."""

    __unstable__: ClassVar[bool] = True


class UnarchiveSessionRequest(Wire):
    """Unarchives a session without opening it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class UnarchiveSessionResponse(Wire):
    """The session is not archived."""

    __unstable__: ClassVar[bool] = True


class SessionStatusRequest(Wire):
    """Asks for the status of a session, and changes nothing."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class SessionStatusResponse(Wire):
    """Whether a session is open in the agent or only stored."""

    __unstable__: ClassVar[bool] = True

    status: SessionStatus  # any other value counts as saved


class SetSessionTitleRequest(Wire):
    """Sets the title of a session."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    title: str


class SetSessionTitleResponse(Wire):
    """The title as stored, which clients show."""

    __unstable__: ClassVar[bool] = True

    title: str


class SetSessionModeRequest(Wire):
    """Changes the mode, also during a turn."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Wire):
    """The mode has changed."""


class SessionListCapabilities(Wire):
    """`session/list` is served."""


class SessionDeleteCapabilities(Wire):
    """`session/delete` is served."""


class SessionAdditionalDirectoriesCapabilities(Wire):
    """A session may work in more than one directory."""


class SessionSystemPromptOverrideCapabilities(Wire):
    """A client may replace the agent's own system prompt."""

    __unstable__: ClassVar[bool] = True


class SessionSystemPromptModeCapabilities(Wire):
    """The modes of system prompts that the agent supports in addition to appending."""

    __unstable__: ClassVar[bool] = True

    override: Lenient[SessionSystemPromptOverrideCapabilities | None] = None


class SessionSystemPromptCapabilities(Wire):
    """A client may add to the system prompt."""

    __unstable__: ClassVar[bool] = True

    mode: Lenient[SessionSystemPromptModeCapabilities | None] = None


class SessionForkCapabilities(Wire):
    """`session/fork` is served."""

    __unstable__: ClassVar[bool] = True


class SessionArchiveCapabilities(Wire):
    """`session/archive` and `session/unarchive` are served, and `session/list` with them."""

    __unstable__: ClassVar[bool] = True


class SessionStatusCapabilities(Wire):
    """`session/status` is served."""

    __unstable__: ClassVar[bool] = True


class SessionTitleCapabilities(Wire):
    """`session/set_title` is served."""

    __unstable__: ClassVar[bool] = True


class SessionResumeCapabilities(Wire):
    """`session/resume` is served."""


class SessionCloseCapabilities(Wire):
    """`session/close` is served."""


class SessionCapabilities(Wire):
    """What the agent supports in addition to creating and prompting sessions."""

    list: Lenient[SessionListCapabilities | None] = None
    delete: Lenient[SessionDeleteCapabilities | None] = None
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    system_prompt: Unstable[Lenient[SessionSystemPromptCapabilities | None]] = None
    fork: Unstable[Lenient[SessionForkCapabilities | None]] = None
    archive: Unstable[Lenient[SessionArchiveCapabilities | None]] = None
    status: Unstable[Lenient[SessionStatusCapabilities | None]] = None
    title: Unstable[Lenient[SessionTitleCapabilities | None]] = None
    resume: Lenient[SessionResumeCapabilities | None] = None
    close: Lenient[SessionCloseCapabilities | None] = None


# Turns: a prompt, its end, and its cancellation.

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]


class PromptRequest(Wire):
    """The user's prompt; the response arrives when the turn has ended."""

    session_id: SessionId
    prompt: list[ContentBlock]


class PromptResponse(Wire):
    """The end of the turn, with its stop reason."""

    stop_reason: StopReason
    usage: Unstable[Lenient[Usage | None]] = None


class CancelNotification(Wire):
    """Cancels the running turn; its prompt is answered with the stop reason cancelled."""

    session_id: SessionId


# Cancellation of requests.


class CancelRequestNotification(Wire):
    """Cancels a request that this side sent; it still gets a response."""

    request_id: RequestId


METHODS: tuple[Method, ...] = (
    Method(
        name="session/new",
        call="new_session",
        doc="Create a session.",
        params=NewSessionRequest,
        result=NewSessionResponse,
        to="agent",
    ),
    Method(
        name="session/load",
        call="load_session",
        doc="Open a stored session: replay it as updates, then return (R-SESS-09).",
        params=LoadSessionRequest,
        result=LoadSessionResponse,
        to="agent",
        gate="agent.load_session",
    ),
    Method(
        name="session/resume",
        call="resume_session",
        doc="Open a stored session without a replay.",
        params=ResumeSessionRequest,
        result=ResumeSessionResponse,
        to="agent",
        gate="agent.session_capabilities.resume",
    ),
    Method(
        name="session/fork",
        call="fork_session",
        doc="Create a session that continues from another one, which does not change.",
        params=ForkSessionRequest,
        result=ForkSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.fork",
    ),
    Method(
        name="session/list",
        call="list_sessions",
        doc="List stored sessions, a page at a time.",
        params=ListSessionsRequest,
        result=ListSessionsResponse,
        to="agent",
        gate="agent.session_capabilities.list",
    ),
    Method(
        name="session/status",
        call="session_status",
        doc="Return whether a session is open or stored.",
        params=SessionStatusRequest,
        result=SessionStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.status",
    ),
    Method(
        name="session/set_title",
        call="set_session_title",
        doc="Store a title and return it as stored.",
        params=SetSessionTitleRequest,
        result=SetSessionTitleResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.title",
    ),
    Method(
        name="session/archive",
        call="archive_session",
        doc="Archive a session; succeeds if it is archived already.",
        params=ArchiveSessionRequest,
        result=ArchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.archive",
    ),
    Method(
        name="session/unarchive",
        call="unarchive_session",
        doc="Unarchive a session.",
        params=UnarchiveSessionRequest,
        result=UnarchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.archive",
    ),
    Method(
        name="session/delete",
        call="delete_session",
        doc="Delete a session permanently; succeeds for an unknown one.",
        params=DeleteSessionRequest,
        result=DeleteSessionResponse,
        to="agent",
        gate="agent.session_capabilities.delete",
    ),
    Method(
        name="session/close",
        call="close_session",
        doc="Cancel the work of a session and release it.",
        params=CloseSessionRequest,
        result=CloseSessionResponse,
        to="agent",
        gate="agent.session_capabilities.close",
    ),
    Method(
        name="session/set_mode",
        call="set_session_mode",
        doc="Switch the mode of a session.",
        params=SetSessionModeRequest,
        result=SetSessionModeResponse,
        to="agent",  # if the setup response had `modes`, which is not a capability
    ),
    Method(
        name="session/prompt",
        call="prompt",
        doc="Run a turn; return its stop reason (R-PROMPT-03).",
        caller_doc="Send a prompt; returns when the turn is over and all its updates are handled.",
        params=PromptRequest,
        result=PromptResponse,
        to="agent",
    ),
    Method(
        name="session/cancel",
        call="cancel",
        params=CancelNotification,
        to="agent",
    ),
    Method(
        name="$/cancel_request",
        call="cancel_request",
        params=CancelRequestNotification,
        to="protocol",
    ),
)
