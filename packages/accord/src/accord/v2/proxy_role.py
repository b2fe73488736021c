"""The proxy of version 2, to subclass: one method for each method of the protocol."""

from __future__ import annotations

from typing import ClassVar

from accord.roles.proxy import Edited, Forward, TypedProxy
from accord.roles.spec import ProtocolSpec
from accord.v2 import types as t
from accord.v2.spec import SPEC

__all__ = ("Proxy",)


class Proxy(TypedProxy):
    """A proxy of version 2: override what it sees and changes.

    Methods that are not overridden pass messages on as the bytes that were received. If a method
    is overridden, only what it changes is different afterwards. A chain of another version refuses
    this proxy in `initialize`.
    """

    spec: ClassVar[ProtocolSpec] = SPEC

    # From the client to the agent.

    async def initialize(
        self,
        params: t.InitializeRequest,
        forward: Forward[t.InitializeRequest, t.InitializeResponse],
    ) -> t.InitializeResponse:
        """Handle `initialize`."""
        return await forward()

    async def login(
        self, params: t.LoginAuthRequest, forward: Forward[t.LoginAuthRequest, t.LoginAuthResponse]
    ) -> t.LoginAuthResponse:
        """Handle `auth/login`."""
        return await forward()

    async def logout(
        self,
        params: t.LogoutAuthRequest,
        forward: Forward[t.LogoutAuthRequest, t.LogoutAuthResponse],
    ) -> t.LogoutAuthResponse:
        """Handle `auth/logout`."""
        return await forward()

    async def auth_status(
        self,
        params: t.AuthStatusRequest,
        forward: Forward[t.AuthStatusRequest, t.AuthStatusResponse],
    ) -> t.AuthStatusResponse:
        """Handle `auth/status`."""
        return await forward()

    async def new_session(
        self,
        params: t.NewSessionRequest,
        forward: Forward[t.NewSessionRequest, t.NewSessionResponse],
    ) -> t.NewSessionResponse:
        """Handle `session/new`."""
        return await forward()

    async def resume_session(
        self,
        params: t.ResumeSessionRequest,
        forward: Forward[t.ResumeSessionRequest, t.ResumeSessionResponse],
    ) -> t.ResumeSessionResponse:
        """Handle `session/resume`."""
        return await forward()

    async def fork_session(
        self,
        params: t.ForkSessionRequest,
        forward: Forward[t.ForkSessionRequest, t.ForkSessionResponse],
    ) -> t.ForkSessionResponse:
        """Handle `session/fork`."""
        return await forward()

    async def list_sessions(
        self,
        params: t.ListSessionsRequest,
        forward: Forward[t.ListSessionsRequest, t.ListSessionsResponse],
    ) -> t.ListSessionsResponse:
        """Handle `session/list`."""
        return await forward()

    async def session_status(
        self,
        params: t.SessionStatusRequest,
        forward: Forward[t.SessionStatusRequest, t.SessionStatusResponse],
    ) -> t.SessionStatusResponse:
        """Handle `session/status`."""
        return await forward()

    async def set_session_title(
        self,
        params: t.SetSessionTitleRequest,
        forward: Forward[t.SetSessionTitleRequest, t.SetSessionTitleResponse],
    ) -> t.SetSessionTitleResponse:
        """Handle `session/set_title`."""
        return await forward()

    async def archive_session(
        self,
        params: t.ArchiveSessionRequest,
        forward: Forward[t.ArchiveSessionRequest, t.ArchiveSessionResponse],
    ) -> t.ArchiveSessionResponse:
        """Handle `session/archive`."""
        return await forward()

    async def unarchive_session(
        self,
        params: t.UnarchiveSessionRequest,
        forward: Forward[t.UnarchiveSessionRequest, t.UnarchiveSessionResponse],
    ) -> t.UnarchiveSessionResponse:
        """Handle `session/unarchive`."""
        return await forward()

    async def delete_session(
        self,
        params: t.DeleteSessionRequest,
        forward: Forward[t.DeleteSessionRequest, t.DeleteSessionResponse],
    ) -> t.DeleteSessionResponse:
        """Handle `session/delete`."""
        return await forward()

    async def close_session(
        self,
        params: t.CloseSessionRequest,
        forward: Forward[t.CloseSessionRequest, t.CloseSessionResponse],
    ) -> t.CloseSessionResponse:
        """Handle `session/close`."""
        return await forward()

    async def prompt(
        self, params: t.PromptRequest, forward: Forward[t.PromptRequest, t.PromptResponse]
    ) -> t.PromptResponse:
        """Handle `session/prompt`."""
        return await forward()

    def cancel(self, params: t.CancelSessionNotification) -> Edited[t.CancelSessionNotification]:
        """Handle `session/cancel`."""
        return params

    async def cancel_tool_call(
        self,
        params: t.CancelToolCallRequest,
        forward: Forward[t.CancelToolCallRequest, t.CancelToolCallResponse],
    ) -> t.CancelToolCallResponse:
        """Handle `tool_call/cancel`."""
        return await forward()

    async def cancel_terminal(
        self,
        params: t.CancelTerminalRequest,
        forward: Forward[t.CancelTerminalRequest, t.CancelTerminalResponse],
    ) -> t.CancelTerminalResponse:
        """Handle `terminal/cancel`."""
        return await forward()

    async def set_session_config_option(
        self,
        params: t.SetSessionConfigOptionRequest,
        forward: Forward[t.SetSessionConfigOptionRequest, t.SetSessionConfigOptionResponse],
    ) -> t.SetSessionConfigOptionResponse:
        """Handle `session/set_config_option`."""
        return await forward()

    async def list_providers(
        self,
        params: t.ListProvidersRequest,
        forward: Forward[t.ListProvidersRequest, t.ListProvidersResponse],
    ) -> t.ListProvidersResponse:
        """Handle `providers/list`."""
        return await forward()

    async def set_provider(
        self,
        params: t.SetProviderRequest,
        forward: Forward[t.SetProviderRequest, t.SetProviderResponse],
    ) -> t.SetProviderResponse:
        """Handle `providers/set`."""
        return await forward()

    async def disable_provider(
        self,
        params: t.DisableProviderRequest,
        forward: Forward[t.DisableProviderRequest, t.DisableProviderResponse],
    ) -> t.DisableProviderResponse:
        """Handle `providers/disable`."""
        return await forward()

    def notify_mcp(self, params: t.MessageMcpNotification) -> Edited[t.MessageMcpNotification]:
        """Handle `mcp/message`."""
        return params

    # From the agent to the client.

    def auth_status_update(
        self, params: t.AuthStatusUpdateNotification
    ) -> Edited[t.AuthStatusUpdateNotification]:
        """Handle `auth/status_update`."""
        return params

    def session_update(
        self, params: t.UpdateSessionNotification
    ) -> Edited[t.UpdateSessionNotification]:
        """Handle `session/update`."""
        return params

    async def request_permission(
        self,
        params: t.RequestPermissionRequest,
        forward: Forward[t.RequestPermissionRequest, t.RequestPermissionResponse],
    ) -> t.RequestPermissionResponse:
        """Handle `session/request_permission`."""
        return await forward()

    async def create_elicitation(
        self,
        params: t.CreateElicitationRequest,
        forward: Forward[t.CreateElicitationRequest, t.CreateElicitationResponse],
    ) -> t.CreateElicitationResponse:
        """Handle `elicitation/create`."""
        return await forward()

    def complete_elicitation(
        self, params: t.CompleteElicitationNotification
    ) -> Edited[t.CompleteElicitationNotification]:
        """Handle `elicitation/complete`."""
        return params

    async def message_mcp(
        self,
        params: t.MessageMcpRequest,
        forward: Forward[t.MessageMcpRequest, t.MessageMcpResponse],
    ) -> t.MessageMcpResponse:
        """Handle `mcp/message`."""
        return await forward()
