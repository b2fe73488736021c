"""The two sides of version 1, to subclass: one method for each method of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeAlias, TypeVar

from accord.connection.connection import Connection
from accord.connection.routes import Context
from accord.errors import MethodNotFound
from accord.jsonrpc.message import RequestId
from accord.roles.binding import Role, check_offered_methods, derived_capabilities
from accord.roles.handshake import serve
from accord.v1.auth import (
    AuthenticateRequest,
    AuthenticateResponse,
    AuthMethod,
    AuthStatusRequest,
    AuthStatusResponse,
    AuthStatusUpdateNotification,
    LogoutRequest,
    LogoutResponse,
)
from accord.v1.config import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
from accord.v1.elicitation import (
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationResponse,
)
from accord.v1.fs import (
    ReadTextFileRequest,
    ReadTextFileResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from accord.v1.ids import SessionId
from accord.v1.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
)
from accord.v1.nes import (
    AcceptNesNotification,
    CloseNesRequest,
    CloseNesResponse,
    DidChangeDocumentNotification,
    DidCloseDocumentNotification,
    DidFocusDocumentNotification,
    DidOpenDocumentNotification,
    DidSaveDocumentNotification,
    RejectNesNotification,
    StartNesRequest,
    StartNesResponse,
    SuggestNesRequest,
    SuggestNesResponse,
)
from accord.v1.permission import RequestPermissionRequest, RequestPermissionResponse
from accord.v1.prompt import CancelNotification, PromptRequest, PromptResponse
from accord.v1.providers import (
    DisableProviderRequest,
    DisableProviderResponse,
    ListProvidersRequest,
    ListProvidersResponse,
    SetProviderRequest,
    SetProviderResponse,
)
from accord.v1.remote import RemoteAgent, RemoteClient
from accord.v1.session import (
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
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionStatusRequest,
    SessionStatusResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
    SetSessionTitleRequest,
    SetSessionTitleResponse,
    UnarchiveSessionRequest,
    UnarchiveSessionResponse,
)
from accord.v1.spec import SPEC
from accord.v1.terminal import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from accord.v1.update import SessionNotification
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
        """Cancel the prompt handlers of a session; each is answered `cancelled`."""
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
    """An agent of version 1: override what it serves.

    Each method takes the params and a context and returns the result, plainly or as a
    coroutine. What is not overridden is not offered, and answered with error -32601.
    """

    kit = SPEC
    side = "agent"
    always_served = frozenset({"cancel"})

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
            check_offered_methods(self, "auth_methods", "authenticate")  # R-AUTH-04
        return InitializeResponse(
            protocol_version=1,
            agent_info=self.info or Implementation(name=type(self).__name__, version="0"),
            agent_capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def cancel(self, params: CancelNotification, context: AgentContext) -> MaybeAwaitable[None]:
        """Cancel the turn of a session; by default its prompt handler is cancelled."""
        context.cancel_prompts(params.session_id)

    def authenticate(
        self, params: AuthenticateRequest, context: AgentContext
    ) -> MaybeAwaitable[AuthenticateResponse]:
        """Log in with one of the advertised methods."""
        raise MethodNotFound

    def logout(
        self, params: LogoutRequest, context: AgentContext
    ) -> MaybeAwaitable[LogoutResponse]:
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

    def load_session(
        self, params: LoadSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[LoadSessionResponse]:
        """Open a stored session: replay all of it as updates, then answer (R-SESS-09)."""
        raise MethodNotFound

    def resume_session(
        self, params: ResumeSessionRequest, context: AgentContext
    ) -> MaybeAwaitable[ResumeSessionResponse]:
        """Open a stored session without a replay."""
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
        """Run a turn; answer with the reason it stopped (R-PROMPT-03)."""
        raise MethodNotFound

    def set_session_mode(
        self, params: SetSessionModeRequest, context: AgentContext
    ) -> MaybeAwaitable[SetSessionModeResponse]:
        """Switch the mode of a session."""
        raise MethodNotFound

    def set_session_config_option(
        self, params: SetSessionConfigOptionRequest, context: AgentContext
    ) -> MaybeAwaitable[SetSessionConfigOptionResponse]:
        """Set a config option; answer with all of them."""
        raise MethodNotFound

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

    def start_nes(
        self, params: StartNesRequest, context: AgentContext
    ) -> MaybeAwaitable[StartNesResponse]:
        """Begin a session of next edit suggestions."""
        raise MethodNotFound

    def suggest_nes(
        self, params: SuggestNesRequest, context: AgentContext
    ) -> MaybeAwaitable[SuggestNesResponse]:
        """Suggest the next edits."""
        raise MethodNotFound

    def accept_nes(
        self, params: AcceptNesNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A suggestion was accepted."""
        raise MethodNotFound

    def reject_nes(
        self, params: RejectNesNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A suggestion was rejected."""
        raise MethodNotFound

    def close_nes(
        self, params: CloseNesRequest, context: AgentContext
    ) -> MaybeAwaitable[CloseNesResponse]:
        """End a session of next edit suggestions."""
        raise MethodNotFound

    def did_open_document(
        self, params: DidOpenDocumentNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A document was opened."""
        raise MethodNotFound

    def did_change_document(
        self, params: DidChangeDocumentNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A document was changed."""
        raise MethodNotFound

    def did_close_document(
        self, params: DidCloseDocumentNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A document was closed."""
        raise MethodNotFound

    def did_save_document(
        self, params: DidSaveDocumentNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A document was saved."""
        raise MethodNotFound

    def did_focus_document(
        self, params: DidFocusDocumentNotification, context: AgentContext
    ) -> MaybeAwaitable[None]:
        """A document came into focus."""
        raise MethodNotFound

    def make_remote(self, connection: Connection) -> RemoteClient:
        """For the router: the client of a connection, to call."""
        return RemoteClient(connection)

    def make_context(self, context: Context, remote: RemoteClient) -> AgentContext:
        """For the router: what the handlers of one request are given."""
        return AgentContext(context.connection, context.request_id, remote)


class ClientRole(Role):
    """A client of version 1: override what it serves.

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
            protocol_version=1,
            client_info=self.info or Implementation(name=type(self).__name__, version="0"),
            client_capabilities=self.capabilities(),
        )

    def has_offers(self) -> bool:
        """Tell whether an agent that has not read the capabilities would miss something."""
        return self.capabilities() != ClientCapabilities()

    def auth_status_update(
        self, params: AuthStatusUpdateNotification, context: ClientContext
    ) -> MaybeAwaitable[None]:
        """Take a change of the login state."""
        raise MethodNotFound

    def session_update(
        self, params: SessionNotification, context: ClientContext
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

    def read_text_file(
        self, params: ReadTextFileRequest, context: ClientContext
    ) -> MaybeAwaitable[ReadTextFileResponse]:
        """Read a file, unsaved changes included."""
        raise MethodNotFound

    def write_text_file(
        self, params: WriteTextFileRequest, context: ClientContext
    ) -> MaybeAwaitable[WriteTextFileResponse]:
        """Write a file; it is created when missing."""
        raise MethodNotFound

    def create_terminal(
        self, params: CreateTerminalRequest, context: ClientContext
    ) -> MaybeAwaitable[CreateTerminalResponse]:
        """Start a command; answer at once with the id of its terminal."""
        raise MethodNotFound

    def terminal_output(
        self, params: TerminalOutputRequest, context: ClientContext
    ) -> MaybeAwaitable[TerminalOutputResponse]:
        """Return what a terminal has printed so far."""
        raise MethodNotFound

    def wait_for_terminal_exit(
        self, params: WaitForTerminalExitRequest, context: ClientContext
    ) -> MaybeAwaitable[WaitForTerminalExitResponse]:
        """Answer when the command of a terminal has ended."""
        raise MethodNotFound

    def kill_terminal(
        self, params: KillTerminalRequest, context: ClientContext
    ) -> MaybeAwaitable[KillTerminalResponse]:
        """End the command of a terminal; the terminal stays."""
        raise MethodNotFound

    def release_terminal(
        self, params: ReleaseTerminalRequest, context: ClientContext
    ) -> MaybeAwaitable[ReleaseTerminalResponse]:
        """End the command of a terminal and free it."""
        raise MethodNotFound

    def message_mcp(
        self, params: MessageMcpRequest, context: ClientContext
    ) -> MaybeAwaitable[MessageMcpResponse]:
        """Pass a request to an MCP server that the client provides."""
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
