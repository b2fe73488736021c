"""The two sides of version 2, to subclass: one method for each method of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeAlias, TypeVar

from accord.connection.connection import Connection
from accord.connection.routes import Context
from accord.errors import InvalidParams, MethodNotFound
from accord.jsonrpc.message import RequestId
from accord.roles.binding import Role, check_offered_methods, derived_capabilities
from accord.roles.handshake import serve
from accord.v2.auth import (
    AuthMethod,
    AuthStatusRequest,
    AuthStatusResponse,
    AuthStatusUpdateNotification,
    LoginAuthRequest,
    LoginAuthResponse,
    LogoutAuthRequest,
    LogoutAuthResponse,
)
from accord.v2.cancel import (
    CancelSessionNotification,
    CancelTerminalRequest,
    CancelTerminalResponse,
    CancelToolCallRequest,
    CancelToolCallResponse,
)
from accord.v2.config import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
from accord.v2.elicitation import (
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationResponse,
)
from accord.v2.ids import SessionId
from accord.v2.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
)
from accord.v2.permission import RequestPermissionRequest, RequestPermissionResponse
from accord.v2.prompt import PromptRequest, PromptResponse
from accord.v2.providers import (
    DisableProviderRequest,
    DisableProviderResponse,
    ListProvidersRequest,
    ListProvidersResponse,
    SetProviderRequest,
    SetProviderResponse,
)
from accord.v2.remote import RemoteAgent, RemoteClient
from accord.v2.session import (
    ArchiveSessionRequest,
    ArchiveSessionResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    ForkSessionRequest,
    ForkSessionResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionStatusRequest,
    SessionStatusResponse,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    UnarchiveSessionRequest,
    UnarchiveSessionResponse,
)
from accord.v2.spec import SPEC
from accord.v2.update import UpdateSessionNotification
from accord.wire.shared.mcp_message import (
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResponse,
)

__all__ = ("AgentContext", "AgentRole", "ClientContext", "ClientRole", "MaybeAwaitable", "run")

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class AgentContext(Context):
    """What an agent's handler has besides the params: the client, to call."""

    __slots__ = ("client",)

    def __init__(self, connection: Connection, request_id: RequestId, client: RemoteClient) -> None:
        super().__init__(connection, request_id)
        self.client = client

    def cancel_prompts(self, session_id: SessionId) -> None:
        """Cancel the prompt handlers of a session (R-CANCEL-13)."""
        self.connection.cancel_where(
            lambda method, params: method == "session/prompt" and params.session_id == session_id
        )


class ClientContext(Context):
    """What a client's handler has besides the params: the agent, to call."""

    __slots__ = ("agent",)

    def __init__(self, connection: Connection, request_id: RequestId, agent: RemoteAgent) -> None:
        super().__init__(connection, request_id)
        self.agent = agent


class AgentRole(Role):
    """An agent of version 2: override what it serves.

    Each method takes the params and a context and returns the result, plainly or as a
    coroutine. What is not overridden is not offered, and answered with error -32601.
    """

    kit = SPEC
    side = "agent"
    always_served = frozenset({"cancel", "cancel_tool_call", "cancel_terminal"})

    info: Implementation | None = None
    auth_methods: Sequence[AuthMethod] = ()

    def capabilities(self) -> AgentCapabilities:
        """Return what this agent offers; by default what its methods stand for."""
        return derived_capabilities(self, AgentCapabilities)

    def initialize(
        self, params: InitializeRequest, context: AgentContext
    ) -> MaybeAwaitable[InitializeResponse]:
        """Answer with what this agent is and offers; the version is set by the router."""
        if self.auth_methods:
            check_offered_methods(self, "auth_methods", "login", "logout")  # R-AUTH-04
        return InitializeResponse(
            protocol_version=2,
            info=self.info or Implementation(name=type(self).__name__, version="0"),
            capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def cancel(
        self, params: CancelSessionNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """Cancel the foreground work; by default prompts that are not inserted yet are (-32800)."""
        context.cancel_prompts(params.session_id)

    def login(
        self, params: LoginAuthRequest, context: AgentContext
    ) -> MaybeAwaitable[LoginAuthResponse]:
        """Log in with one of the advertised methods."""
        raise MethodNotFound

    def logout(
        self, params: LogoutAuthRequest, context: AgentContext
    ) -> MaybeAwaitable[LogoutAuthResponse]:
        """Log out."""
        raise MethodNotFound

    def auth_status(
        self, params: AuthStatusRequest, context: AgentContext
    ) -> MaybeAwaitable[AuthStatusResponse]:
        """Say whether the user is logged in; never fails with `AuthRequired`."""
        raise MethodNotFound

    def new_session(
        self, params: NewSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[NewSessionResponse]:
        """Create a session."""
        raise MethodNotFound

    def resume_session(
        self, params: ResumeSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[ResumeSessionResponse]:
        """Open a stored session; replay if asked, send the state, then answer (R-SESS-29)."""
        raise MethodNotFound

    def fork_session(
        self, params: ForkSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[ForkSessionResponse]:
        """Create a session that goes on from another one, which stays as it is."""
        raise MethodNotFound

    def list_sessions(
        self, params: ListSessionsRequest, context: AgentContext
    ) -> MaybeAwaitable[ListSessionsResponse]:
        """List stored sessions, a page at a time."""
        raise MethodNotFound

    def session_status(
        self, params: SessionStatusRequest, context: AgentContext
    ) -> MaybeAwaitable[SessionStatusResponse]:
        """Say whether a session is open or saved."""
        raise MethodNotFound

    def set_session_title(
        self, params: SetSessionTitleRequest, context: AgentContext
    ) -> MaybeAwaitable[SetSessionTitleResponse]:
        """Store a title and answer with what was stored."""
        raise MethodNotFound

    def archive_session(
        self, params: ArchiveSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[ArchiveSessionResponse]:
        """Put a session away; one that is archived already is a success."""
        raise MethodNotFound

    def unarchive_session(
        self, params: UnarchiveSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[UnarchiveSessionResponse]:
        """Take a session out of the archive."""
        raise MethodNotFound

    def delete_session(
        self, params: DeleteSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[DeleteSessionResponse]:
        """Delete a session for good; an unknown one is a success."""
        raise MethodNotFound

    def close_session(
        self, params: CloseSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[CloseSessionResponse]:
        """Cancel what runs in a session and free it."""
        raise MethodNotFound

    def prompt(
        self, params: PromptRequest, context: AgentContext
    ) -> MaybeAwaitable[PromptResponse]:
        """Insert the user's message; answer with its id once it has its place (R-PROMPT-09)."""
        raise MethodNotFound

    def set_session_config_option(
        self, params: SetSessionConfigOptionRequest, context: AgentContext
    ) -> MaybeAwaitable[SetSessionConfigOptionResponse]:
        """Set a config option; answer with all of them."""
        raise MethodNotFound

    def cancel_tool_call(
        self, params: CancelToolCallRequest, context: AgentContext
    ) -> MaybeAwaitable[CancelToolCallResponse]:
        """Stop one tool call; the answer means accepted (R-TCAN-04)."""
        raise InvalidParams("The tool call cannot be cancelled")  # R-TCAN-05

    def cancel_terminal(
        self, params: CancelTerminalRequest, context: AgentContext
    ) -> MaybeAwaitable[CancelTerminalResponse]:
        """Stop one terminal; the answer means accepted (R-TCAN-04)."""
        raise InvalidParams("The terminal cannot be cancelled")  # R-TCAN-05

    def list_providers(
        self, params: ListProvidersRequest, context: AgentContext
    ) -> MaybeAwaitable[ListProvidersResponse]:
        """List the model providers that can be configured."""
        raise MethodNotFound

    def set_provider(
        self, params: SetProviderRequest, context: AgentContext
    ) -> MaybeAwaitable[SetProviderResponse]:
        """Replace the configuration of a provider."""
        raise MethodNotFound

    def disable_provider(
        self, params: DisableProviderRequest, context: AgentContext
    ) -> MaybeAwaitable[DisableProviderResponse]:
        """Switch a provider off."""
        raise MethodNotFound

    def notify_mcp(
        self, params: MessageMcpNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """Take a notification of an MCP server that the client provides."""
        raise MethodNotFound

    def make_remote(self, connection: Connection) -> RemoteClient:
        """For the router: the client of a connection, to call."""
        return RemoteClient(connection)

    def make_context(self, context: Context, remote: RemoteClient) -> AgentContext:
        """For the router: what the handlers of one request are given."""
        return AgentContext(context.connection, context.request_id, remote)


class ClientRole(Role):
    """A client of version 2: override what it serves.

    Each method takes the params and a context and returns the result, plainly or as a
    coroutine. What is not overridden is not offered, and answered with error -32601.
    """

    kit = SPEC
    side = "client"

    info: Implementation | None = None

    def capabilities(self) -> ClientCapabilities:
        """Return what this client offers; by default what its methods stand for."""
        return derived_capabilities(self, ClientCapabilities)

    def initialize_params(self) -> InitializeRequest:
        """Return what this client says of itself; the version is set by the router."""
        return InitializeRequest(
            protocol_version=2,
            info=self.info or Implementation(name=type(self).__name__, version="0"),
            capabilities=self.capabilities(),
        )

    def has_offers(self) -> bool:
        """Tell whether an agent that has not read the capabilities would miss something."""
        return self.capabilities() != ClientCapabilities()

    def message_mcp(
        self, params: MessageMcpRequest, context: ClientContext
    ) -> MaybeAwaitable[MessageMcpResponse]:
        """Pass a request to an MCP server that the client provides."""
        raise MethodNotFound

    def session_update(
        self, params: UpdateSessionNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Take what happened in a session; updates come in order."""
        raise MethodNotFound

    def request_permission(
        self, params: RequestPermissionRequest, context: ClientContext
    ) -> MaybeAwaitable[RequestPermissionResponse]:
        """Let the user decide on an operation."""
        raise MethodNotFound

    def create_elicitation(
        self, params: CreateElicitationRequest, context: ClientContext
    ) -> MaybeAwaitable[CreateElicitationResponse]:
        """Ask the user for input, by a form or a URL."""
        raise MethodNotFound

    def complete_elicitation(
        self, params: CompleteElicitationNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """An elicitation by URL is done."""
        raise MethodNotFound

    def auth_status_update(
        self, params: AuthStatusUpdateNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Take a change of the login state."""
        raise MethodNotFound

    def make_remote(self, connection: Connection, initialized: InitializeResponse) -> RemoteAgent:
        """For the router: the agent of a connection, to call."""
        return RemoteAgent(connection, initialized)

    def make_context(self, context: Context, remote: RemoteAgent) -> ClientContext:
        """For the router: what the handlers of one request are given."""
        return ClientContext(context.connection, context.request_id, remote)


def run(agent: AgentRole) -> None:
    """Serve this process' stdin and stdout until the client hangs up."""
    from accord.transports.stdio import stdio

    asyncio.run(serve(stdio(restore=False), agent))
