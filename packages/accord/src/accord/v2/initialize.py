"""The handshake of version 2, with capabilities, login and providers of models."""

from __future__ import annotations

from typing import (
    Annotated,
    ClassVar,
    Literal,
    TypeAlias,
)

from accord.v2.content import (
    AuthMethodId,
    ProtocolVersion,
    ProviderId,
    Uri,
)
from accord.v2.session import (
    EnvVariable,
    SessionCapabilities,
)
from accord.wire.base import (
    Lenient,
    LenientList,
    NullAsEmpty,
    Open,
    OpenEnum,
    Other,
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
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodBase",
    "AuthMethodTerminal",
    "AuthState",
    "AuthStatusCapabilities",
    "AuthStatusRequest",
    "AuthStatusResponse",
    "AuthStatusUpdateNotification",
    "ClientAuthCapabilities",
    "ClientCapabilities",
    "DisableProviderRequest",
    "DisableProviderResponse",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "Implementation",
    "InitializeProxyRequest",
    "InitializeProxyResponse",
    "InitializeRequest",
    "InitializeResponse",
    "ListProvidersRequest",
    "ListProvidersResponse",
    "LlmProtocol",
    "LoginAuthRequest",
    "LoginAuthResponse",
    "LogoutAuthRequest",
    "LogoutAuthResponse",
    "ProviderCurrentConfig",
    "ProviderInfo",
    "ProvidersCapabilities",
    "SetProviderRequest",
    "SetProviderResponse",
    "TerminalAuthCapabilities",
)


# Logging in and out, and who is logged in.


class AuthMethodBase(Wire):
    """The fields of auth methods of every type."""

    method_id: AuthMethodId
    name: str


class AuthMethodTerminal(AuthMethodBase, tag_field="type", tag="terminal"):
    """A login in a terminal: the agent's own command, run with these `args` and `env` added."""

    description: Lenient[str | None] = None
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []


class AuthMethodAgent(AuthMethodBase, tag_field="type", tag="agent"):
    """A login that the agent handles itself when `auth/login` is called."""

    description: Lenient[str | None] = None


AuthMethod: TypeAlias = Annotated[Open[AuthMethodTerminal | AuthMethodAgent], Other(AuthMethodBase)]


class LoginAuthRequest(Wire):
    """Logs in with a method that the agent advertised, never with a terminal one."""

    method_id: AuthMethodId


class LoginAuthResponse(Wire):
    """Logged in."""


class LogoutAuthRequest(Wire):
    """Logs out."""


class LogoutAuthResponse(Wire):
    """Logged out."""


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
    """Whether a user is logged in, and the accounts; an unknown `state` counts as "unknown"."""

    __unstable__: ClassVar[bool] = True

    state: AuthState
    accounts: Lenient[LenientList[AuthAccount]] = []


class AuthStatusUpdateNotification(Wire):
    """The auth status changed."""

    __unstable__: ClassVar[bool] = True

    state: AuthState
    accounts: Lenient[LenientList[AuthAccount]] = []


# The handshake: versions, names and capabilities.


class Implementation(Wire):
    """A program and its version; without a `title`, show `name`."""

    name: str
    title: Lenient[str | None] = None
    version: str


class AuthStatusCapabilities(Wire):
    """The agent reports the auth status."""

    __unstable__: ClassVar[bool] = True


class AgentAuthCapabilities(Wire):
    """The authentication features of the agent."""

    status: Unstable[Lenient[AuthStatusCapabilities | None]] = None


class ProvidersCapabilities(Wire):
    """Model providers can be configured."""

    __unstable__: ClassVar[bool] = True


class AgentCapabilities(Wire):
    """The capabilities of the agent; without `session` it has no sessions."""

    session: Lenient[SessionCapabilities | None] = None
    auth: Lenient[AgentAuthCapabilities | None] = None
    providers: Unstable[Lenient[ProvidersCapabilities | None]] = None


class TerminalAuthCapabilities(Wire):
    """The client can run a login in a terminal."""


class ClientAuthCapabilities(Wire):
    """The authentication features of the client."""

    terminal: Lenient[TerminalAuthCapabilities | None] = None


class ElicitationFormCapabilities(Wire):
    """The client can show forms."""


class ElicitationUrlCapabilities(Wire):
    """The client can open URLs for the user."""


class ElicitationCapabilities(Wire):
    """How the client can ask the user for input."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    url: Lenient[ElicitationUrlCapabilities | None] = None


class ClientCapabilities(Wire):
    """The capabilities of the client."""

    auth: Lenient[ClientAuthCapabilities | None] = None
    elicitation: Lenient[ElicitationCapabilities | None] = None


class InitializeRequest(Wire):
    """The client's first message; `protocol_version` is the highest that it supports."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Lenient[ClientCapabilities] = ClientCapabilities()


class InitializeResponse(Wire):
    """The selected version, and the capabilities of the agent."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Lenient[AgentCapabilities] = AgentCapabilities()
    auth_methods: Lenient[LenientList[AuthMethod]] = []


# Providers of language models, as the client may configure them.

LlmProtocol: TypeAlias = OpenEnum[Literal["anthropic", "openai", "azure", "vertex", "bedrock"]]


class ProviderCurrentConfig(Wire):
    """The configuration of a provider, without the headers, which are secret."""

    __unstable__: ClassVar[bool] = True

    api_type: LlmProtocol
    base_url: Uri


class ProviderInfo(Wire):
    """A provider; without `current` it is disabled, which a `required` one never is."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    supported: Lenient[LenientList[LlmProtocol]]
    required: bool
    current: ProviderCurrentConfig | None = None


class ListProvidersRequest(Wire):
    """Asks for the providers."""

    __unstable__: ClassVar[bool] = True


class ListProvidersResponse(Wire):
    """The providers that can be configured."""

    __unstable__: ClassVar[bool] = True

    providers: list[ProviderInfo]


class SetProviderRequest(Wire):
    """Replaces the whole configuration of a provider; `headers` may contain secrets."""

    __unstable__: ClassVar[bool] = True

    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: Uri
    headers: dict[str, str] = {}


class SetProviderResponse(Wire):
    """The provider is set."""

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
    # Logging in and out needs an agent that listed auth methods; no capability says so.
    Method(
        name="auth/login",
        call="login",
        doc="Log in with one of the advertised methods.",
        params=LoginAuthRequest,
        result=LoginAuthResponse,
        to="agent",
    ),
    Method(
        name="auth/logout",
        call="logout",
        doc="Log out.",
        params=LogoutAuthRequest,
        result=LogoutAuthResponse,
        to="agent",
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
