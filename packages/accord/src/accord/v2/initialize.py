"""The handshake: versions, names and capabilities (v2)."""

from __future__ import annotations

from typing import ClassVar

from accord.v2.auth import AuthMethod
from accord.v2.ids import ProtocolVersion
from accord.v2.session import SessionCapabilities
from accord.wire.base import Lenient, LenientList, Unstable, Wire
from accord.wire.method import Method

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
    "ProvidersCapabilities",
    "TerminalAuthCapabilities",
)


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


METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        call="initialize",
        params=InitializeRequest,
        result=InitializeResponse,
        to="agent",
    ),
)
