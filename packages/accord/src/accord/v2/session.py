"""Sessions: created, resumed, listed, closed and archived (v2)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v2.commands import AvailableCommand
from accord.v2.config import SessionConfigOption
from accord.v2.content import ContentBlock
from accord.v2.ids import AbsolutePath, DateTime, SessionId, SessionListCursor
from accord.v2.mcp import McpCapabilities, McpServer
from accord.v2.prompt import PromptCapabilities
from accord.v2.state import SessionState
from accord.wire.base import Lenient, LenientList, NullAsEmpty, Open, OpenEnum, Unstable, Wire
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
    "NewSessionRequest",
    "NewSessionResponse",
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


METHODS: tuple[Method, ...] = (
    Method(
        name="session/new",
        call="new_session",
        params=NewSessionRequest,
        result=NewSessionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/resume",
        call="resume_session",
        params=ResumeSessionRequest,
        result=ResumeSessionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/fork",
        call="fork_session",
        params=ForkSessionRequest,
        result=ForkSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.fork",
    ),
    Method(
        name="session/list",
        call="list_sessions",
        params=ListSessionsRequest,
        result=ListSessionsResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/status",
        call="session_status",
        params=SessionStatusRequest,
        result=SessionStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.session.status",
    ),
    Method(
        name="session/set_title",
        call="set_session_title",
        params=SetSessionTitleRequest,
        result=SetSessionTitleResponse,
        to="agent",
        unstable=True,
        gate="agent.session.title",
    ),
    Method(
        name="session/archive",
        call="archive_session",
        params=ArchiveSessionRequest,
        result=ArchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.archive",
    ),
    Method(
        name="session/unarchive",
        call="unarchive_session",
        params=UnarchiveSessionRequest,
        result=UnarchiveSessionResponse,
        to="agent",
        unstable=True,
        gate="agent.session.archive",
    ),
    Method(
        name="session/delete",
        call="delete_session",
        params=DeleteSessionRequest,
        result=DeleteSessionResponse,
        to="agent",
        gate="agent.session.delete",
    ),
    Method(
        name="session/close",
        call="close_session",
        params=CloseSessionRequest,
        result=CloseSessionResponse,
        to="agent",
        gate="agent.session",
    ),
)
