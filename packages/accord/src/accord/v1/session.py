"""Sessions: created, listed, changed and closed (v1)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.config import SessionConfigOption
from accord.v1.content import ContentBlock
from accord.v1.ids import SessionId, SessionModeId
from accord.v1.mcp import McpServer
from accord.wire.base import Lenient, LenientList, NullAsEmpty, OpenEnum, Unstable, Wire
from accord.wire.method import Method

__all__ = (
    "ArchiveSessionRequest",
    "ArchiveSessionResponse",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "NewSessionRequest",
    "NewSessionResponse",
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
    "SystemPrompt",
    "SystemPromptMode",
    "UnarchiveSessionRequest",
    "UnarchiveSessionResponse",
)

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


METHODS: tuple[Method, ...] = (
    Method(
        name="session/new",
        call="new_session",
        params=NewSessionRequest,
        result=NewSessionResponse,
        to="agent",
    ),
    Method(
        name="session/load",
        call="load_session",
        params=LoadSessionRequest,
        result=LoadSessionResponse,
        to="agent",
        gate="agent.load_session",
    ),
    Method(
        name="session/resume",
        call="resume_session",
        params=ResumeSessionRequest,
        result=ResumeSessionResponse,
        to="agent",
        gate="agent.session_capabilities.resume",
    ),
    Method(
        name="session/fork",
        call="fork_session",
        params=ForkSessionRequest,
        result=ForkSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.fork",
    ),
    Method(
        name="session/list",
        call="list_sessions",
        params=ListSessionsRequest,
        result=ListSessionsResponse,
        to="agent",
        gate="agent.session_capabilities.list",
    ),
    Method(
        name="session/status",
        call="session_status",
        params=SessionStatusRequest,
        result=SessionStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.status",
    ),
    Method(
        name="session/set_title",
        call="set_session_title",
        params=SetSessionTitleRequest,
        result=SetSessionTitleResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.title",
    ),
    Method(
        name="session/archive",
        call="archive_session",
        params=ArchiveSessionRequest,
        result=ArchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.archive",
    ),
    Method(
        name="session/unarchive",
        call="unarchive_session",
        params=UnarchiveSessionRequest,
        result=UnarchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session_capabilities.archive",
    ),
    Method(
        name="session/delete",
        call="delete_session",
        params=DeleteSessionRequest,
        result=DeleteSessionResponse,
        to="agent",
        gate="agent.session_capabilities.delete",
    ),
    Method(
        name="session/close",
        call="close_session",
        params=CloseSessionRequest,
        result=CloseSessionResponse,
        to="agent",
        gate="agent.session_capabilities.close",
    ),
    Method(
        name="session/set_mode",
        call="set_session_mode",
        params=SetSessionModeRequest,
        result=SetSessionModeResponse,
        to="agent",  # if the setup response had `modes`, which is not a capability
    ),
)
