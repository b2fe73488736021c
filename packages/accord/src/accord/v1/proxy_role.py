"""The proxy of version 1, to subclass: one method for each method of the protocol."""

from __future__ import annotations

from typing import ClassVar

from accord.roles.proxy import Edited, Forward, TypedProxy
from accord.roles.spec import ProtocolSpec
from accord.v1 import types as t
from accord.v1.spec import SPEC

__all__ = ("Proxy",)


class Proxy(TypedProxy):
    """A proxy of version 1: override what it sees and changes.

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

    async def authenticate(
        self,
        params: t.AuthenticateRequest,
        forward: Forward[t.AuthenticateRequest, t.AuthenticateResponse],
    ) -> t.AuthenticateResponse:
        """Handle `authenticate`."""
        return await forward()

    async def logout(
        self, params: t.LogoutRequest, forward: Forward[t.LogoutRequest, t.LogoutResponse]
    ) -> t.LogoutResponse:
        """Handle `logout`."""
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

    async def load_session(
        self,
        params: t.LoadSessionRequest,
        forward: Forward[t.LoadSessionRequest, t.LoadSessionResponse],
    ) -> t.LoadSessionResponse:
        """Handle `session/load`."""
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

    async def set_session_mode(
        self,
        params: t.SetSessionModeRequest,
        forward: Forward[t.SetSessionModeRequest, t.SetSessionModeResponse],
    ) -> t.SetSessionModeResponse:
        """Handle `session/set_mode`."""
        return await forward()

    async def prompt(
        self, params: t.PromptRequest, forward: Forward[t.PromptRequest, t.PromptResponse]
    ) -> t.PromptResponse:
        """Handle `session/prompt`."""
        return await forward()

    def cancel(self, params: t.CancelNotification) -> Edited[t.CancelNotification]:
        """Handle `session/cancel`."""
        return params

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

    def session_update(self, params: t.SessionNotification) -> Edited[t.SessionNotification]:
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

    async def read_text_file(
        self,
        params: t.ReadTextFileRequest,
        forward: Forward[t.ReadTextFileRequest, t.ReadTextFileResponse],
    ) -> t.ReadTextFileResponse:
        """Handle `fs/read_text_file`."""
        return await forward()

    async def write_text_file(
        self,
        params: t.WriteTextFileRequest,
        forward: Forward[t.WriteTextFileRequest, t.WriteTextFileResponse],
    ) -> t.WriteTextFileResponse:
        """Handle `fs/write_text_file`."""
        return await forward()

    async def create_terminal(
        self,
        params: t.CreateTerminalRequest,
        forward: Forward[t.CreateTerminalRequest, t.CreateTerminalResponse],
    ) -> t.CreateTerminalResponse:
        """Handle `terminal/create`."""
        return await forward()

    async def terminal_output(
        self,
        params: t.TerminalOutputRequest,
        forward: Forward[t.TerminalOutputRequest, t.TerminalOutputResponse],
    ) -> t.TerminalOutputResponse:
        """Handle `terminal/output`."""
        return await forward()

    async def wait_for_terminal_exit(
        self,
        params: t.WaitForTerminalExitRequest,
        forward: Forward[t.WaitForTerminalExitRequest, t.WaitForTerminalExitResponse],
    ) -> t.WaitForTerminalExitResponse:
        """Handle `terminal/wait_for_exit`."""
        return await forward()

    async def kill_terminal(
        self,
        params: t.KillTerminalRequest,
        forward: Forward[t.KillTerminalRequest, t.KillTerminalResponse],
    ) -> t.KillTerminalResponse:
        """Handle `terminal/kill`."""
        return await forward()

    async def release_terminal(
        self,
        params: t.ReleaseTerminalRequest,
        forward: Forward[t.ReleaseTerminalRequest, t.ReleaseTerminalResponse],
    ) -> t.ReleaseTerminalResponse:
        """Handle `terminal/release`."""
        return await forward()

    async def message_mcp(
        self,
        params: t.MessageMcpRequest,
        forward: Forward[t.MessageMcpRequest, t.MessageMcpResponse],
    ) -> t.MessageMcpResponse:
        """Handle `mcp/message`."""
        return await forward()
