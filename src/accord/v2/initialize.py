"""The handshake: versions, names, and what each side can do (v2)."""

from __future__ import annotations

from typing import ClassVar

from accord.v2.auth import AuthMethod
from accord.v2.ids import ProtocolVersion
from accord.wire.base import Lenient, LenientList, Unstable, Wire

__all__ = (
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AuthStatusCapabilities",
    "ClientAuthCapabilities",
    "ClientCapabilities",
    "ElicitationCapabilities",
    "ElicitationFormCapabilities",
    "ElicitationUrlCapabilities",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "McpAcpCapabilities",
    "McpCapabilities",
    "McpHttpCapabilities",
    "McpStdioCapabilities",
    "PromptAudioCapabilities",
    "PromptCapabilities",
    "PromptEmbeddedContextCapabilities",
    "PromptImageCapabilities",
    "ProvidersCapabilities",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionArchiveCapabilities",
    "SessionCapabilities",
    "SessionDeleteCapabilities",
    "SessionForkCapabilities",
    "SessionStatusCapabilities",
    "SessionSystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities",
    "SessionTitleCapabilities",
    "TerminalAuthCapabilities",
)


class Implementation(Wire):
    """The program at one end; show `name` when it has no `title`."""

    name: str
    title: Lenient[str | None] = None
    version: str


class PromptImageCapabilities(Wire):
    """Prompts may hold images."""


class PromptAudioCapabilities(Wire):
    """Prompts may hold sound."""


class PromptEmbeddedContextCapabilities(Wire):
    """Prompts may hold resources with their content."""


class PromptCapabilities(Wire):
    """What prompts may hold besides text and links."""

    image: Lenient[PromptImageCapabilities | None] = None
    audio: Lenient[PromptAudioCapabilities | None] = None
    embedded_context: Lenient[PromptEmbeddedContextCapabilities | None] = None


class McpStdioCapabilities(Wire):
    """MCP servers may be started as processes."""


class McpHttpCapabilities(Wire):
    """MCP servers may be reached by HTTP."""


class McpAcpCapabilities(Wire):
    """MCP servers may be reached through this connection."""

    __unstable__: ClassVar[bool] = True


class McpCapabilities(Wire):
    """Which MCP servers a session may be given."""

    stdio: Lenient[McpStdioCapabilities | None] = None
    http: Lenient[McpHttpCapabilities | None] = None
    acp: Unstable[Lenient[McpAcpCapabilities | None]] = None


class SessionDeleteCapabilities(Wire):
    """Sessions can be deleted."""


class SessionAdditionalDirectoriesCapabilities(Wire):
    """Sessions can have further roots besides `cwd`."""


class SessionSystemPromptOverrideCapabilities(Wire):
    """The client's system prompt can take the place of the agent's."""

    __unstable__: ClassVar[bool] = True


class SessionSystemPromptModeCapabilities(Wire):
    """How a system prompt can be applied, besides being appended."""

    __unstable__: ClassVar[bool] = True

    override: Lenient[SessionSystemPromptOverrideCapabilities | None] = None


class SessionSystemPromptCapabilities(Wire):
    """The client can give a system prompt."""

    __unstable__: ClassVar[bool] = True

    mode: Lenient[SessionSystemPromptModeCapabilities | None] = None


class SessionForkCapabilities(Wire):
    """Sessions can be forked."""

    __unstable__: ClassVar[bool] = True


class SessionArchiveCapabilities(Wire):
    """Sessions can be archived."""

    __unstable__: ClassVar[bool] = True


class SessionStatusCapabilities(Wire):
    """A session can be asked for its status."""

    __unstable__: ClassVar[bool] = True


class SessionTitleCapabilities(Wire):
    """The client can set titles of sessions."""

    __unstable__: ClassVar[bool] = True


class SessionCapabilities(Wire):
    """What sessions can do beyond the baseline."""

    prompt: Lenient[PromptCapabilities | None] = None
    mcp: Lenient[McpCapabilities | None] = None
    delete: Lenient[SessionDeleteCapabilities | None] = None
    additional_directories: Lenient[SessionAdditionalDirectoriesCapabilities | None] = None
    system_prompt: Unstable[Lenient[SessionSystemPromptCapabilities | None]] = None
    fork: Unstable[Lenient[SessionForkCapabilities | None]] = None
    archive: Unstable[Lenient[SessionArchiveCapabilities | None]] = None
    status: Unstable[Lenient[SessionStatusCapabilities | None]] = None
    title: Unstable[Lenient[SessionTitleCapabilities | None]] = None


class AuthStatusCapabilities(Wire):
    """The agent tells who is logged in."""

    __unstable__: ClassVar[bool] = True


class AgentAuthCapabilities(Wire):
    """What the agent can do about logins."""

    status: Unstable[Lenient[AuthStatusCapabilities | None]] = None


class ProvidersCapabilities(Wire):
    """Model providers can be configured."""

    __unstable__: ClassVar[bool] = True


class AgentCapabilities(Wire):
    """What the agent can do; without `session` it has no sessions."""

    session: Lenient[SessionCapabilities | None] = None
    auth: Lenient[AgentAuthCapabilities | None] = None
    providers: Unstable[Lenient[ProvidersCapabilities | None]] = None


class TerminalAuthCapabilities(Wire):
    """The client can run a login in a terminal."""


class ClientAuthCapabilities(Wire):
    """What the client can do about logins."""

    terminal: Lenient[TerminalAuthCapabilities | None] = None


class ElicitationFormCapabilities(Wire):
    """The client can show forms."""


class ElicitationUrlCapabilities(Wire):
    """The client can open links for the user."""


class ElicitationCapabilities(Wire):
    """How the client can ask the user for input."""

    form: Lenient[ElicitationFormCapabilities | None] = None
    url: Lenient[ElicitationUrlCapabilities | None] = None


class ClientCapabilities(Wire):
    """What the client can do."""

    auth: Lenient[ClientAuthCapabilities | None] = None
    elicitation: Lenient[ElicitationCapabilities | None] = None


class InitializeRequest(Wire):
    """The client's first message; `protocol_version` is the highest that it speaks."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Lenient[ClientCapabilities] = ClientCapabilities()


class InitializeResponse(Wire):
    """The agent's choice of version, and what it can do."""

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: Lenient[AgentCapabilities] = AgentCapabilities()
    auth_methods: Lenient[LenientList[AuthMethod]] = []
