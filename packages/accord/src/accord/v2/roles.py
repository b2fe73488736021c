"""The two sides of version 2, to subclass: one method for each method of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import ClassVar, TypeAlias, TypeVar

from accord.connection.connection import Connection
from accord.connection.routes import Context
from accord.errors import InvalidParams, MethodNotFound
from accord.jsonrpc.message import RequestId
from accord.roles.binding import ContextFactory, Role, check_offered_methods, derived_capabilities
from accord.v2 import types as t
from accord.v2.remote import RemoteAgent, RemoteClient
from accord.v2.spec import SPEC
from accord.wire.method import Side

__all__ = ("AgentContext", "AgentRole", "ClientContext", "ClientRole", "MaybeAwaitable")

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class AgentContext(Context):
    """What an agent's handler receives in addition to the params: the client, to call."""

    __slots__ = ("client",)

    def __init__(self, connection: Connection, request_id: RequestId, client: RemoteClient) -> None:
        super().__init__(connection, request_id)
        self.client: RemoteClient = client

    def cancel_prompts(self, session_id: t.SessionId) -> None:
        """Cancel the prompt handlers of a session (R-CANCEL-13)."""
        self.connection.cancel_where(
            lambda method, params: method == "session/prompt" and params.session_id == session_id
        )


class ClientContext(Context):
    """What a client's handler receives in addition to the params: the agent, to call."""

    __slots__ = ("agent",)

    def __init__(self, connection: Connection, request_id: RequestId, agent: RemoteAgent) -> None:
        super().__init__(connection, request_id)
        self.agent: RemoteAgent = agent


class AgentRole(Role[RemoteClient]):
    """An agent of version 2: override what it serves.

    Each method gets the params and a context, and returns the result or an awaitable of it.
    Methods that are not overridden are not advertised, and requests for them fail (-32601).
    """

    spec = SPEC
    side: ClassVar[Side] = "agent"
    remote_class: type[RemoteClient] = RemoteClient
    context_class: ClassVar[ContextFactory] = AgentContext
    always_served: ClassVar[frozenset[str]] = frozenset(
        {"cancel", "cancel_tool_call", "cancel_terminal"}
    )

    info: t.Implementation | None = None
    auth_methods: Sequence[t.AuthMethod] = ()

    def capabilities(self) -> t.AgentCapabilities:
        """Return the capabilities; by default those that the overridden methods imply."""
        return derived_capabilities(self)

    def initialize(
        self, params: t.InitializeRequest, context: AgentContext
    ) -> MaybeAwaitable[t.InitializeResponse]:
        """Return name, capabilities and auth methods; the handshake sets the version."""
        if self.auth_methods:
            check_offered_methods(self, "auth_methods", "login", "logout")  # R-AUTH-04
        return t.InitializeResponse(
            protocol_version=2,
            info=self.info or t.Implementation(name=type(self).__name__, version="0"),
            capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def cancel(
        self, params: t.CancelSessionNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """Cancel the foreground work; by default cancel prompts that are not inserted (-32800)."""
        context.cancel_prompts(params.session_id)

    def login(
        self, params: t.LoginAuthRequest, context: AgentContext
    ) -> MaybeAwaitable[t.LoginAuthResponse]:
        """Log in with one of the advertised methods."""
        raise MethodNotFound

    def logout(
        self, params: t.LogoutAuthRequest, context: AgentContext
    ) -> MaybeAwaitable[t.LogoutAuthResponse]:
        """Log out."""
        raise MethodNotFound

    def auth_status(
        self, params: t.AuthStatusRequest, context: AgentContext
    ) -> MaybeAwaitable[t.AuthStatusResponse]:
        """Return whether the user is logged in; never raise `AuthRequired`."""
        raise MethodNotFound

    def new_session(
        self, params: t.NewSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.NewSessionResponse]:
        """Create a session."""
        raise MethodNotFound

    def resume_session(
        self, params: t.ResumeSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.ResumeSessionResponse]:
        """Open a stored session: replay if requested, send the state, return (R-SESS-29)."""
        raise MethodNotFound

    def fork_session(
        self, params: t.ForkSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.ForkSessionResponse]:
        """Create a session that continues from another one, which does not change."""
        raise MethodNotFound

    def list_sessions(
        self, params: t.ListSessionsRequest, context: AgentContext
    ) -> MaybeAwaitable[t.ListSessionsResponse]:
        """List stored sessions, a page at a time."""
        raise MethodNotFound

    def session_status(
        self, params: t.SessionStatusRequest, context: AgentContext
    ) -> MaybeAwaitable[t.SessionStatusResponse]:
        """Return whether a session is open or stored."""
        raise MethodNotFound

    def set_session_title(
        self, params: t.SetSessionTitleRequest, context: AgentContext
    ) -> MaybeAwaitable[t.SetSessionTitleResponse]:
        """Store a title and return it as stored."""
        raise MethodNotFound

    def archive_session(
        self, params: t.ArchiveSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.ArchiveSessionResponse]:
        """Archive a session; succeeds if it is archived already."""
        raise MethodNotFound

    def unarchive_session(
        self, params: t.UnarchiveSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.UnarchiveSessionResponse]:
        """Unarchive a session."""
        raise MethodNotFound

    def delete_session(
        self, params: t.DeleteSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.DeleteSessionResponse]:
        """Delete a session permanently; succeeds for an unknown one."""
        raise MethodNotFound

    def close_session(
        self, params: t.CloseSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.CloseSessionResponse]:
        """Cancel the work of a session and release it."""
        raise MethodNotFound

    def prompt(
        self, params: t.PromptRequest, context: AgentContext
    ) -> MaybeAwaitable[t.PromptResponse]:
        """Insert the user's message; return its id once it is inserted (R-PROMPT-09)."""
        raise MethodNotFound

    def set_session_config_option(
        self, params: t.SetSessionConfigOptionRequest, context: AgentContext
    ) -> MaybeAwaitable[t.SetSessionConfigOptionResponse]:
        """Set a config option; return all options."""
        raise MethodNotFound

    def cancel_tool_call(
        self, params: t.CancelToolCallRequest, context: AgentContext
    ) -> MaybeAwaitable[t.CancelToolCallResponse]:
        """Cancel one tool call; the result means that this is accepted (R-TCAN-04)."""
        raise InvalidParams("The tool call cannot be cancelled")  # R-TCAN-05

    def cancel_terminal(
        self, params: t.CancelTerminalRequest, context: AgentContext
    ) -> MaybeAwaitable[t.CancelTerminalResponse]:
        """Stop one terminal; the result means that this is accepted (R-TCAN-04)."""
        raise InvalidParams("The terminal cannot be cancelled")  # R-TCAN-05

    def list_providers(
        self, params: t.ListProvidersRequest, context: AgentContext
    ) -> MaybeAwaitable[t.ListProvidersResponse]:
        """List the model providers that can be configured."""
        raise MethodNotFound

    def set_provider(
        self, params: t.SetProviderRequest, context: AgentContext
    ) -> MaybeAwaitable[t.SetProviderResponse]:
        """Replace the configuration of a provider."""
        raise MethodNotFound

    def disable_provider(
        self, params: t.DisableProviderRequest, context: AgentContext
    ) -> MaybeAwaitable[t.DisableProviderResponse]:
        """Disable a provider."""
        raise MethodNotFound

    def notify_mcp(
        self, params: t.MessageMcpNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """Handle a notification of an MCP server that the client provides."""
        raise MethodNotFound


class ClientRole(Role[RemoteAgent]):
    """A client of version 2: override what it serves.

    Each method gets the params and a context, and returns the result or an awaitable of it.
    Methods that are not overridden are not advertised, and requests for them fail (-32601).
    """

    spec = SPEC
    side: ClassVar[Side] = "client"
    remote_class: type[RemoteAgent] = RemoteAgent
    context_class: ClassVar[ContextFactory] = ClientContext

    info: t.Implementation | None = None

    def capabilities(self) -> t.ClientCapabilities:
        """Return the capabilities; by default those that the overridden methods imply."""
        return derived_capabilities(self)

    def initialize_params(self) -> t.InitializeRequest:
        """Return name and capabilities; the handshake sets the version."""
        return t.InitializeRequest(
            protocol_version=2,
            info=self.info or t.Implementation(name=type(self).__name__, version="0"),
            capabilities=self.capabilities(),
        )

    def advertises_capabilities(self) -> bool:
        """Return True if the capabilities are worth a second `initialize` (R-INIT-15).

        It is sent to an agent of another version, which has not read those of the first.
        """
        return self.capabilities() != t.ClientCapabilities()

    def message_mcp(
        self, params: t.MessageMcpRequest, context: ClientContext
    ) -> MaybeAwaitable[t.MessageMcpResponse]:
        """Pass a request to an MCP server that the client provides."""
        raise MethodNotFound

    def session_update(
        self, params: t.UpdateSessionNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Handle an update of a session; updates arrive in order."""
        raise MethodNotFound

    def request_permission(
        self, params: t.RequestPermissionRequest, context: ClientContext
    ) -> MaybeAwaitable[t.RequestPermissionResponse]:
        """Let the user decide on an operation."""
        raise MethodNotFound

    def create_elicitation(
        self, params: t.CreateElicitationRequest, context: ClientContext
    ) -> MaybeAwaitable[t.CreateElicitationResponse]:
        """Ask the user for input, by a form or a URL."""
        raise MethodNotFound

    def complete_elicitation(
        self, params: t.CompleteElicitationNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Handle the end of an elicitation by URL."""
        raise MethodNotFound

    def auth_status_update(
        self, params: t.AuthStatusUpdateNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Handle a change of the auth status."""
        raise MethodNotFound
