"""The other side, to call: every method of version 2 that it may serve."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from accord.connection.connection import Connection
from accord.errors import LocalProtocolError, NotOffered, ResourceNotFound
from accord.roles.binding import Remote
from accord.rules.quirks import tolerates
from accord.v2.auth import (
    AuthMethodAgent,
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
from accord.v2.initialize import InitializeRequest, InitializeResponse
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

__all__ = ("RemoteAgent", "RemoteClient")


class RemoteClient(Remote):
    """The client, as an agent calls it. `initialized` is what the client said of itself."""

    kit = SPEC
    initialized: InitializeRequest

    def session_update(self, params: UpdateSessionNotification) -> Coroutine[Any, Any, None]:
        """Report what happened in a session; waits while the client reads slower."""
        self._check("session/update", params.update)
        return self.connection.notify("session/update", params)

    async def create_elicitation(
        self, params: CreateElicitationRequest
    ) -> CreateElicitationResponse:
        """Ask the user for input, by a form or a URL."""
        self._check("elicitation/create", params)
        return await self._call("create_elicitation", params)

    async def message_mcp(self, params: MessageMcpRequest) -> MessageMcpResponse:
        """Pass a request to an MCP server that the client provides."""
        return await self._call("message_mcp", params)

    async def request_permission(
        self, params: RequestPermissionRequest
    ) -> RequestPermissionResponse:
        """Ask the user to decide on an operation."""
        return await self._call("request_permission", params)

    async def complete_elicitation(self, params: CompleteElicitationNotification) -> None:
        """Say that an elicitation by URL is done."""
        await self._notify("elicitation/complete", params)

    async def auth_status_update(self, params: AuthStatusUpdateNotification) -> None:
        """Report a change of the login state."""
        await self._notify("auth/status_update", params)


class RemoteAgent(Remote):
    """The agent, as a client calls it. `initialized` is what the agent said of itself."""

    kit = SPEC

    def __init__(self, connection: Connection, initialized: InitializeResponse) -> None:
        super().__init__(connection)
        self.initialized = initialized

    async def login(self, params: LoginAuthRequest) -> LoginAuthResponse:
        """Log in with one of the advertised methods, never a terminal one (R-AUTH-08)."""
        known = self.initialized.auth_methods
        if not any(
            isinstance(m, AuthMethodAgent) and m.method_id == params.method_id for m in known
        ):
            raise LocalProtocolError(
                f"{params.method_id!r} is no login that the agent offers to do by itself"
            )
        return await self._call("login", params)

    async def cancel(self, params: CancelSessionNotification) -> None:
        """Cancel the foreground work of a session."""
        await self._notify("session/cancel", params)

    @tolerates("unknown-session-closed")
    async def close_session(self, params: CloseSessionRequest) -> CloseSessionResponse:
        """Cancel what runs in a session and free it; an unknown one is a success (R-SESS-31)."""
        try:
            return await self._call("close_session", params)
        except ResourceNotFound:
            return CloseSessionResponse()

    @tolerates("unknown-session-closed")
    async def delete_session(self, params: DeleteSessionRequest) -> DeleteSessionResponse:
        """Delete a session for good; an unknown one is a success (R-SESS-31)."""
        try:
            return await self._call("delete_session", params)
        except ResourceNotFound:
            return DeleteSessionResponse()

    async def logout(self, params: LogoutAuthRequest) -> LogoutAuthResponse:
        """Log out; only where the agent lists ways to log in (R-AUTH-05)."""
        if not self.initialized.auth_methods:
            raise NotOffered("auth/logout", "agent.authMethods")
        return await self._call("logout", params)

    async def auth_status(self, params: AuthStatusRequest) -> AuthStatusResponse:
        """Return whether the user is logged in."""
        return await self._call("auth_status", params)

    async def new_session(self, params: NewSessionRequest) -> NewSessionResponse:
        """Create a session."""
        return await self._call("new_session", params)

    async def resume_session(
        self,
        params: ResumeSessionRequest,
        *,
        opened: Callable[[ResumeSessionResponse], None] | None = None,
    ) -> ResumeSessionResponse:
        """Open a stored session; returns when its replay has been handled.

        `opened` gets the response before any later message of the agent is handled.
        """
        return await self._call("resume_session", params, opened)

    async def fork_session(self, params: ForkSessionRequest) -> ForkSessionResponse:
        """Create a session that goes on from another one, which stays as it is."""
        return await self._call("fork_session", params)

    async def list_sessions(self, params: ListSessionsRequest) -> ListSessionsResponse:
        """List stored sessions, a page at a time."""
        return await self._call("list_sessions", params)

    async def session_status(self, params: SessionStatusRequest) -> SessionStatusResponse:
        """Return whether a session is open or saved."""
        return await self._call("session_status", params)

    async def set_session_title(self, params: SetSessionTitleRequest) -> SetSessionTitleResponse:
        """Store a title; returns what was stored."""
        return await self._call("set_session_title", params)

    async def archive_session(self, params: ArchiveSessionRequest) -> ArchiveSessionResponse:
        """Put a session away; one that is archived already is a success."""
        return await self._call("archive_session", params)

    async def unarchive_session(self, params: UnarchiveSessionRequest) -> UnarchiveSessionResponse:
        """Take a session out of the archive."""
        return await self._call("unarchive_session", params)

    async def prompt(
        self, params: PromptRequest, *, inserted: Callable[[PromptResponse], None] | None = None
    ) -> PromptResponse:
        """Send a prompt; returns when the agent has inserted it.

        `inserted` is told before the updates behind the answer are handled.
        """
        return await self._call("prompt", params, inserted)

    async def set_session_config_option(
        self, params: SetSessionConfigOptionRequest
    ) -> SetSessionConfigOptionResponse:
        """Set a config option; returns all of them."""
        return await self._call("set_session_config_option", params)

    async def cancel_tool_call(self, params: CancelToolCallRequest) -> CancelToolCallResponse:
        """Stop one tool call; returns when that is accepted."""
        return await self._call("cancel_tool_call", params)

    async def cancel_terminal(self, params: CancelTerminalRequest) -> CancelTerminalResponse:
        """Stop one terminal; returns when that is accepted."""
        return await self._call("cancel_terminal", params)

    async def list_providers(self, params: ListProvidersRequest) -> ListProvidersResponse:
        """List the model providers that can be configured."""
        return await self._call("list_providers", params)

    async def set_provider(self, params: SetProviderRequest) -> SetProviderResponse:
        """Replace the configuration of a provider."""
        return await self._call("set_provider", params)

    async def disable_provider(self, params: DisableProviderRequest) -> DisableProviderResponse:
        """Switch a provider off."""
        return await self._call("disable_provider", params)

    async def notify_mcp(self, params: MessageMcpNotification) -> None:
        """Pass a notification of an MCP server to the agent."""
        await self._notify("mcp/message", params)
