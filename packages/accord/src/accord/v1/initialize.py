"""The handshake: versions, names and capabilities (v1)."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from accord.v1.auth import AuthMethod
from accord.v1.session import SessionCapabilities
from accord.wire.base import Bare, Lenient, LenientList, UInt16, Unstable, Wire
from accord.wire.method import Method

__all__ = (
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthCapabilities",
    "AuthStatusCapabilities",
    "BooleanConfigOptionCapabilities",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CompactionCapabilities",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "FileSystemCapabilities",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "LogoutCapabilities",
    "McpCapabilities",
    "NoticeCapabilities",
    "PlanCapabilities",
    "PromptCapabilities",
    "ProtocolVersion",
    "ProvidersCapabilities",
    "SessionConfigOptionsCapabilities",
    "SubagentCapabilities",
)

ProtocolVersion: TypeAlias = UInt16


class Implementation(Wire):
    """A program and its version; the user sees `title`, or `name` without one."""

    name: str
    version: str
    title: Lenient[str | None] = None


# What an agent can do.


class PromptCapabilities(Wire):
    """The kinds of content that a prompt may have in addition to text and resource links."""

    image: Lenient[bool] = False
    audio: Lenient[bool] = False
    embedded_context: Lenient[bool] = False


class McpCapabilities(Wire):
    """The transports of MCP servers that the agent supports in addition to stdio."""

    http: Lenient[bool] = False
    sse: Lenient[bool] = False
    acp: Unstable[Lenient[bool]] = False


class AuthStatusCapabilities(Wire):
    """`auth/status` is served and `auth/status_update` sent."""

    __unstable__: ClassVar[bool] = True


class LogoutCapabilities(Wire):
    """`logout` is served."""


class AgentAuthCapabilities(Wire):
    """Authentication features of the agent in addition to login."""

    status: Unstable[Lenient[AuthStatusCapabilities | None]] = None
    logout: Lenient[LogoutCapabilities | None] = None


class ProvidersCapabilities(Wire):
    """The `providers/` methods are served."""

    __unstable__: ClassVar[bool] = True


class AgentCapabilities(Wire):
    """Optional features of an agent."""

    load_session: Lenient[bool] = False
    prompt_capabilities: Lenient[PromptCapabilities] = PromptCapabilities()
    mcp_capabilities: Lenient[McpCapabilities] = McpCapabilities()
    session_capabilities: Lenient[SessionCapabilities] = SessionCapabilities()
    auth: Lenient[AgentAuthCapabilities] = AgentAuthCapabilities()
    providers: Unstable[Lenient[ProvidersCapabilities | None]] = None


# What a client can do.


class FileSystemCapabilities(Wire):
    """Which of the `fs/` methods are served."""

    read_text_file: Lenient[bool] = False
    write_text_file: Lenient[bool] = False


class CompactionCapabilities(Bare):
    """The client shows compactions."""


class NoticeCapabilities(Bare):
    """The client shows notices."""


class BooleanConfigOptionCapabilities(Wire):
    """The client supports boolean options."""


class SessionConfigOptionsCapabilities(Wire):
    """The types of config options that the client supports in addition to select."""

    boolean: Lenient[BooleanConfigOptionCapabilities | None] = None


class ClientSessionCapabilities(Wire):
    """Optional features of a client's view of a session."""

    compaction: Lenient[CompactionCapabilities | None] = None
    config_options: Lenient[SessionConfigOptionsCapabilities | None] = None
    notices: Lenient[NoticeCapabilities | None] = None


class SubagentCapabilities(Wire):
    """The client shows subagents and the messages between sessions."""

    __unstable__: ClassVar[bool] = True


class PlanCapabilities(Wire):
    """The client shows plans with ids, several at once."""

    __unstable__: ClassVar[bool] = True


class AuthCapabilities(Wire):
    """The auth methods that the client supports."""

    terminal: Lenient[bool] = False


class ElicitationFormCapabilities(Wire):
    """The client shows forms."""


class ElicitationUrlCapabilities(Wire):
    """The client opens URLs."""


class ElicitationCapabilities(Wire):
    """The modes of elicitation that the client supports."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    url: Lenient[ElicitationUrlCapabilities | None] = None


class ClientCapabilities(Wire):
    """Optional features of a client."""

    fs: Lenient[FileSystemCapabilities] = FileSystemCapabilities()
    terminal: Lenient[bool] = False  # all of the `terminal/` methods
    session: Lenient[ClientSessionCapabilities | None] = None
    subagents: Unstable[Lenient[SubagentCapabilities | None]] = None
    plan: Unstable[Lenient[PlanCapabilities | None]] = None
    auth: Lenient[AuthCapabilities] = AuthCapabilities()
    elicitation: Lenient[ElicitationCapabilities | None] = None


class InitializeRequest(Wire):
    """The client's description; `protocol_version` is the highest that it supports."""

    protocol_version: ProtocolVersion
    client_capabilities: Lenient[ClientCapabilities] = ClientCapabilities()
    client_info: Lenient[Implementation | None] = None


class InitializeResponse(Wire):
    """The agent's description; `protocol_version` is the version of the connection."""

    protocol_version: ProtocolVersion
    agent_capabilities: Lenient[AgentCapabilities] = AgentCapabilities()
    auth_methods: Lenient[LenientList[AuthMethod]] = []
    agent_info: Lenient[Implementation | None] = None


METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        call="initialize",
        params=InitializeRequest,
        result=InitializeResponse,
        to="agent",
    ),
)
