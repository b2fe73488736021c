"""Sessions: made, found, changed and ended (v1)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from accord.v1.config import SessionConfigOption
from accord.v1.content import ContentBlock
from accord.v1.ids import SessionId, SessionModeId
from accord.v1.mcp import McpServer
from accord.wire.base import Lenient, LenientList, NullAsEmpty, OpenEnum, Unstable, Wire

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
    "SessionArchiveFilter",
    "SessionInfo",
    "SessionMode",
    "SessionModeState",
    "SessionStatus",
    "SessionStatusRequest",
    "SessionStatusResponse",
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
    """A way of working that the user can choose."""

    id: SessionModeId
    name: str
    description: Lenient[str | None] = None


class SessionModeState(Wire):
    """The modes of a session, and which one is active."""

    current_mode_id: SessionModeId
    available_modes: Lenient[LenientList[SessionMode]]


class NewSessionRequest(Wire):
    """Make a session that works in `cwd`; all paths are absolute."""

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
    """Open a saved session; its history comes as updates before the answer."""

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
    """Open a saved session without its history."""

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
    """Make a new session that begins as a copy of this one."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    cwd: str
    mcp_servers: NullAsEmpty[list[McpServer]] = []
    additional_directories: NullAsEmpty[list[str]] = []
    system_prompt: SystemPrompt | None = None


class ForkSessionResponse(Wire):
    """The copy is ready for prompts; the original is as it was."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId  # of the copy
    modes: Lenient[SessionModeState | None] = None
    config_options: Lenient[LenientList[SessionConfigOption] | None] = None


class ListSessionsRequest(Wire):
    """Ask for a page of the sessions, those of one directory or all."""

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
    """A page of the sessions; with `next_cursor` there are more."""

    sessions: Lenient[LenientList[SessionInfo]]
    next_cursor: Lenient[str | None] = None


class DeleteSessionRequest(Wire):
    """Remove a session from the list, for good."""

    session_id: SessionId


class DeleteSessionResponse(Wire):
    """The session is not in the list, or never was."""


class CloseSessionRequest(Wire):
    """Cancel what runs in a session and free what it holds; it stays in the list."""

    session_id: SessionId


class CloseSessionResponse(Wire):
    """The session is closed."""


class ArchiveSessionRequest(Wire):
    """Put a session away; an open one is closed first."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class ArchiveSessionResponse(Wire):
    """The session is archived, or was already."""

    __unstable__: ClassVar[bool] = True


class UnarchiveSessionRequest(Wire):
    """Take a session out of the archive, without opening it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class UnarchiveSessionResponse(Wire):
    """The session is not archived."""

    __unstable__: ClassVar[bool] = True


class SessionStatusRequest(Wire):
    """Ask what a session's state is, and change nothing."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


class SessionStatusResponse(Wire):
    """Whether a session is open in the agent or only saved."""

    __unstable__: ClassVar[bool] = True

    status: SessionStatus  # any other value counts as saved


class SetSessionTitleRequest(Wire):
    """Give a session a title."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    title: str


class SetSessionTitleResponse(Wire):
    """The title as the agent keeps it: show this one."""

    __unstable__: ClassVar[bool] = True

    title: str


class SetSessionModeRequest(Wire):
    """Change the mode, also while a turn runs."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Wire):
    """The mode is changed."""
