"""The handshake of version 1, with capabilities, login and providers of models."""

from __future__ import annotations

from typing import (
    ClassVar,
    Literal,
    TypeAlias,
)

from accord.v1.content import (
    AuthMethodId,
    ProviderId,
)
from accord.v1.session import (
    SessionCapabilities,
)
from accord.wire.base import (
    Bare,
    ByShape,
    Lenient,
    LenientList,
    NullAsEmpty,
    OpenEnum,
    UInt16,
    Unstable,
    Wire,
)
from accord.wire.protocol import (
    Method,
)

__all__ = (
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthAccount",
    "AuthCapabilities",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthState",
    "AuthStatusCapabilities",
    "AuthStatusRequest",
    "AuthStatusResponse",
    "AuthStatusUpdateNotification",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "BooleanConfigOptionCapabilities",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CompactionCapabilities",
    "DisableProviderRequest",
    "DisableProviderResponse",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "FileSystemCapabilities",
    "Implementation",
    "InitializeProxyRequest",
    "InitializeProxyResponse",
    "InitializeRequest",
    "InitializeResponse",
    "ListProvidersRequest",
    "ListProvidersResponse",
    "LlmProtocol",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "McpCapabilities",
    "NoticeCapabilities",
    "PlanCapabilities",
    "PromptCapabilities",
    "ProtocolVersion",
    "ProviderCurrentConfig",
    "ProviderInfo",
    "ProvidersCapabilities",
    "SessionConfigOptionsCapabilities",
    "SetProviderRequest",
    "SetProviderResponse",
    "SubagentCapabilities",
)


# Authentication: login, logout and status.


class AuthMethodTerminal(Wire, tag_field="type", tag="terminal"):
    """A login in a terminal: the agent's own command, run with these `args` and `env` added."""

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[dict[str, str]] = {}


class AuthMethodAgent(Wire):
    """A login that the agent handles itself when `authenticate` is called."""

    id: AuthMethodId
    name: str
    description: Lenient[str | None] = None


# A malformed terminal entry is an error, not an agent login.
AuthMethod: TypeAlias = ByShape[AuthMethodTerminal | AuthMethodAgent]


class AuthenticateRequest(Wire):
    """Logs in with a method of type agent."""

    method_id: AuthMethodId


class AuthenticateResponse(Wire):
    """The result of a successful login."""


class LogoutRequest(Wire):
    """Log out."""


class LogoutResponse(Wire):
    """The user is logged out."""


AuthState: TypeAlias = OpenEnum[
    Literal["authenticated", "unauthenticated", "not_required", "unknown"]
]


class AuthAccount(Wire):
    """An account, for display only; keep it out of logs."""

    __unstable__: ClassVar[bool] = True

    label: str
    active: Lenient[bool | None] = None
    name: Lenient[str | None] = None
    email: Lenient[str | None] = None
    organization: Lenient[str | None] = None


class AuthStatusRequest(Wire):
    """Asks whether a user is logged in."""

    __unstable__: ClassVar[bool] = True


class AuthStatusResponse(Wire):
    """Whether a user is logged in, and the accounts."""

    __unstable__: ClassVar[bool] = True

    state: AuthState  # any other value counts as unknown
    accounts: Lenient[LenientList[AuthAccount]] = []


class AuthStatusUpdateNotification(Wire):
    """The login changed."""

    __unstable__: ClassVar[bool] = True

    state: AuthState  # any other value counts as unknown
    accounts: Lenient[LenientList[AuthAccount]] = []


# The handshake: versions, names and capabilities.

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


# Providers: the sources of the agent's models (unstable).

LlmProtocol: TypeAlias = OpenEnum[Literal["anthropic", "openai", "azure", "vertex", "bedrock"]]


class ProviderCurrentConfig(Wire):
    """The current configuration of a provider, without its headers."""

    __unstable__: ClassVar[bool] = True

    api_type: LlmProtocol
    base_url: str


class ProviderInfo(Wire):
    """A provider of the agent; a `required` one cannot be disabled."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    supported: Lenient[LenientList[LlmProtocol]]
    required: bool
    current: ProviderCurrentConfig | None = None  # None: disabled


class ListProvidersRequest(Wire):
    """Asks for the providers."""

    __unstable__: ClassVar[bool] = True


class ListProvidersResponse(Wire):
    """All providers of the agent."""

    __unstable__: ClassVar[bool] = True

    providers: list[ProviderInfo]


class SetProviderRequest(Wire):
    """Replaces the whole configuration of a provider."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: dict[str, str] = {}


class SetProviderResponse(Wire):
    """The provider is configured."""

    __unstable__: ClassVar[bool] = True


class DisableProviderRequest(Wire):
    """Disables a provider."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId


class DisableProviderResponse(Wire):
    """The provider is disabled."""

    __unstable__: ClassVar[bool] = True


# The handshake of a proxy: the same as that of an agent (unstable).

InitializeProxyRequest: TypeAlias = InitializeRequest
InitializeProxyResponse: TypeAlias = InitializeResponse


METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        call="initialize",
        params=InitializeRequest,
        result=InitializeResponse,
        to="agent",
    ),
    Method(
        name="authenticate",
        call="authenticate",
        doc="Log in with one of the advertised methods.",
        params=AuthenticateRequest,
        result=AuthenticateResponse,
        to="agent",  # with an id from `authMethods`, which is not a capability
    ),
    Method(
        name="logout",
        call="logout",
        doc="Log out.",
        params=LogoutRequest,
        result=LogoutResponse,
        to="agent",
        gate="agent.auth.logout",
    ),
    Method(
        name="auth/status",
        call="auth_status",
        doc="Return whether the user is logged in; never raise `AuthRequired`.",
        caller_doc="Return whether the user is logged in.",
        params=AuthStatusRequest,
        result=AuthStatusResponse,
        to="agent",
        unstable=True,
        gate="agent.auth.status",
    ),
    Method(
        name="auth/status_update",
        call="auth_status_update",
        doc="Handle a change of the auth status.",
        caller_doc="Report a change of the auth status.",
        params=AuthStatusUpdateNotification,
        to="client",
        unstable=True,
        gate="agent.auth.status",
    ),
    Method(
        name="providers/list",
        call="list_providers",
        doc="List the model providers that can be configured.",
        params=ListProvidersRequest,
        result=ListProvidersResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
    Method(
        name="providers/set",
        call="set_provider",
        doc="Replace the configuration of a provider.",
        params=SetProviderRequest,
        result=SetProviderResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
    Method(
        name="providers/disable",
        call="disable_provider",
        doc="Disable a provider.",
        params=DisableProviderRequest,
        result=DisableProviderResponse,
        to="agent",
        unstable=True,
        gate="agent.providers",
    ),
    Method(
        name="proxy/initialize",
        call="initialize_proxy",
        params=InitializeProxyRequest,
        result=InitializeProxyResponse,
        to="proxy",
        unstable=True,
    ),
)
