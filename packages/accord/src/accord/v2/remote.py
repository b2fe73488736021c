"""Calls the other side: one method for each method of version 2."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from accord.connection.connection import Connection
from accord.errors import LocalProtocolError, NotOffered, ResourceNotFound
from accord.roles.remote import Remote
from accord.rules.quirks import tolerates
from accord.v2 import types as t
from accord.v2.spec import SPEC

__all__ = ("RemoteAgent", "RemoteClient")


class RemoteClient(Remote):
    """The client, as an agent calls it. `initialized` has the params of `initialize`."""

    spec = SPEC
    initialized: t.InitializeRequest

    def session_update(self, params: t.UpdateSessionNotification) -> Coroutine[Any, Any, None]:
        """Send an update of a session; wait while the transport is congested."""
        self._check("session/update", params.update)
        return self.connection.notify("session/update", params)

    async def create_elicitation(
        self, params: t.CreateElicitationRequest
    ) -> t.CreateElicitationResponse:
        """Ask the user for input, by a form or a URL."""
        self._check("elicitation/create", params)
        return await self._call("create_elicitation", params)

    async def message_mcp(
        self,
        params: t.MessageMcpRequest,
        settled: Callable[[], None] | None = None,
    ) -> t.MessageMcpResponse:
        """Pass a request to an MCP server that the client provides.

        `settled` is called for its response, before any later message is handled.
        """
        if settled is None:
            return await self._call("message_mcp", params)
        return await self._call("message_mcp", params, lambda _result: settled(), settled)

    async def request_permission(
        self, params: t.RequestPermissionRequest
    ) -> t.RequestPermissionResponse:
        """Ask the user to decide on an operation."""
        return await self._call("request_permission", params)

    async def complete_elicitation(self, params: t.CompleteElicitationNotification) -> None:
        """Report the end of an elicitation by URL."""
        await self._notify("elicitation/complete", params)

    async def auth_status_update(self, params: t.AuthStatusUpdateNotification) -> None:
        """Report a change of the auth status."""
        await self._notify("auth/status_update", params)


class RemoteAgent(Remote):
    """The agent, as a client calls it. `initialized` has the result of `initialize`."""

    spec = SPEC

    initialized: t.InitializeResponse

    def __init__(self, connection: Connection, initialized: t.InitializeResponse) -> None:
        super().__init__(connection, initialized)

    async def login(self, params: t.LoginAuthRequest) -> t.LoginAuthResponse:
        """Log in with one of the advertised methods, never a terminal one (R-AUTH-08)."""
        known = self.initialized.auth_methods
        if not any(
            isinstance(m, t.AuthMethodAgent) and m.method_id == params.method_id for m in known
        ):
            raise LocalProtocolError(
                f"{params.method_id!r} is not an auth method of type 'agent' that the agent"
                " advertises"
            )
        return await self._call("login", params)

    async def cancel(self, params: t.CancelSessionNotification) -> None:
        """Cancel the foreground work of a session."""
        await self._notify("session/cancel", params)

    @tolerates("unknown-session-closed")
    async def close_session(self, params: t.CloseSessionRequest) -> t.CloseSessionResponse:
        """Cancel the work of a session and release it; succeeds for an unknown one (R-SESS-31)."""
        try:
            return await self._call("close_session", params)
        except ResourceNotFound:
            return t.CloseSessionResponse()

    @tolerates("unknown-session-closed")
    async def delete_session(self, params: t.DeleteSessionRequest) -> t.DeleteSessionResponse:
        """Delete a session permanently; succeeds for an unknown one (R-SESS-31)."""
        try:
            return await self._call("delete_session", params)
        except ResourceNotFound:
            return t.DeleteSessionResponse()

    async def logout(self, params: t.LogoutAuthRequest) -> t.LogoutAuthResponse:
        """Log out, if the agent advertises auth methods (R-AUTH-05)."""
        if not self.initialized.auth_methods:
            raise NotOffered("auth/logout", "agent.authMethods")
        return await self._call("logout", params)

    async def auth_status(self, params: t.AuthStatusRequest) -> t.AuthStatusResponse:
        """Return whether the user is logged in."""
        return await self._call("auth_status", params)

    async def new_session(self, params: t.NewSessionRequest) -> t.NewSessionResponse:
        """Create a session."""
        return await self._call("new_session", params)

    async def resume_session(
        self,
        params: t.ResumeSessionRequest,
        *,
        opened: Callable[[t.ResumeSessionResponse], None] | None = None,
    ) -> t.ResumeSessionResponse:
        """Open a stored session; return when its replay has been handled.

        `opened` gets the response before any later message of the agent is handled.
        """
        return await self._call("resume_session", params, opened)

    async def fork_session(self, params: t.ForkSessionRequest) -> t.ForkSessionResponse:
        """Create a session that continues from another one, which does not change."""
        return await self._call("fork_session", params)

    async def list_sessions(self, params: t.ListSessionsRequest) -> t.ListSessionsResponse:
        """List stored sessions, a page at a time."""
        return await self._call("list_sessions", params)

    async def session_status(self, params: t.SessionStatusRequest) -> t.SessionStatusResponse:
        """Return whether a session is open or stored."""
        return await self._call("session_status", params)

    async def set_session_title(
        self, params: t.SetSessionTitleRequest
    ) -> t.SetSessionTitleResponse:
        """Store a title; return it as stored."""
        return await self._call("set_session_title", params)

    async def archive_session(self, params: t.ArchiveSessionRequest) -> t.ArchiveSessionResponse:
        """Archive a session; succeeds if it is archived already."""
        return await self._call("archive_session", params)

    async def unarchive_session(
        self, params: t.UnarchiveSessionRequest
    ) -> t.UnarchiveSessionResponse:
        """Unarchive a session."""
        return await self._call("unarchive_session", params)

    async def prompt(
        self, params: t.PromptRequest, *, inserted: Callable[[t.PromptResponse], None] | None = None
    ) -> t.PromptResponse:
        """Send a prompt; return when the agent has inserted it.

        `inserted` is called before the updates after the response are handled.
        """
        return await self._call("prompt", params, inserted)

    async def set_session_config_option(
        self, params: t.SetSessionConfigOptionRequest
    ) -> t.SetSessionConfigOptionResponse:
        """Set a config option; return all options."""
        return await self._call("set_session_config_option", params)

    async def cancel_tool_call(self, params: t.CancelToolCallRequest) -> t.CancelToolCallResponse:
        """Cancel one tool call; return when this is accepted."""
        return await self._call("cancel_tool_call", params)

    async def cancel_terminal(self, params: t.CancelTerminalRequest) -> t.CancelTerminalResponse:
        """Stop one terminal; return when this is accepted."""
        return await self._call("cancel_terminal", params)

    async def list_providers(self, params: t.ListProvidersRequest) -> t.ListProvidersResponse:
        """List the model providers that can be configured."""
        return await self._call("list_providers", params)

    async def set_provider(self, params: t.SetProviderRequest) -> t.SetProviderResponse:
        """Replace the configuration of a provider."""
        return await self._call("set_provider", params)

    async def disable_provider(self, params: t.DisableProviderRequest) -> t.DisableProviderResponse:
        """Disable a provider."""
        return await self._call("disable_provider", params)

    async def notify_mcp(self, params: t.MessageMcpNotification) -> None:
        """Pass a notification of an MCP server to the agent."""
        await self._notify("mcp/message", params)
