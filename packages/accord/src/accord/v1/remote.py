"""Calls the other side: one method for each method of version 1."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Raw

from accord.connection.connection import Connection
from accord.errors import LocalProtocolError, ResourceNotFound
from accord.roles.remote import Remote
from accord.rules.quirks import tolerates
from accord.v1 import types as t
from accord.v1.early_spellings import SET_SESSION_MODEL, SETUP_CALLS, models_in, set_model
from accord.v1.spec import SPEC
from accord.wire.base import replace
from accord.wire.method import Method

__all__ = ("RemoteAgent", "RemoteClient")


class RemoteClient(Remote):
    """The client, as an agent calls it. `initialized` has the params of `initialize`."""

    spec = SPEC
    initialized: t.InitializeRequest

    def session_update(self, params: t.SessionNotification) -> Coroutine[Any, Any, None]:
        """Send an update of a session; wait while the transport is congested."""
        self._check("session/update", params.update)
        return self.connection.notify("session/update", params)

    async def create_elicitation(
        self, params: t.CreateElicitationRequest
    ) -> t.CreateElicitationResponse:
        """Ask the user for input, by a form or a URL."""
        self._check("elicitation/create", params)
        return await self._call("create_elicitation", params)

    async def auth_status_update(self, params: t.AuthStatusUpdateNotification) -> None:
        """Report a change of the auth status."""
        await self._notify("auth/status_update", params)

    async def request_permission(
        self, params: t.RequestPermissionRequest
    ) -> t.RequestPermissionResponse:
        """Ask the user to decide on an operation."""
        return await self._call("request_permission", params)

    async def complete_elicitation(self, params: t.CompleteElicitationNotification) -> None:
        """Report the end of an elicitation by URL."""
        await self._notify("elicitation/complete", params)

    async def read_text_file(self, params: t.ReadTextFileRequest) -> t.ReadTextFileResponse:
        """Read a file of the client, unsaved changes included."""
        return await self._call("read_text_file", params)

    async def write_text_file(self, params: t.WriteTextFileRequest) -> t.WriteTextFileResponse:
        """Write a file; it is created when missing."""
        return await self._call("write_text_file", params)

    async def create_terminal(self, params: t.CreateTerminalRequest) -> t.CreateTerminalResponse:
        """Start a command in the client; return the id of its terminal immediately."""
        return await self._call("create_terminal", params)

    async def terminal_output(self, params: t.TerminalOutputRequest) -> t.TerminalOutputResponse:
        """Return what a terminal of the client has printed so far."""
        return await self._call("terminal_output", params)

    async def wait_for_terminal_exit(
        self, params: t.WaitForTerminalExitRequest
    ) -> t.WaitForTerminalExitResponse:
        """Return when the command of a terminal has ended."""
        return await self._call("wait_for_terminal_exit", params)

    async def kill_terminal(self, params: t.KillTerminalRequest) -> t.KillTerminalResponse:
        """End the command of a terminal; the terminal stays."""
        return await self._call("kill_terminal", params)

    async def release_terminal(self, params: t.ReleaseTerminalRequest) -> t.ReleaseTerminalResponse:
        """End the command of a terminal and free it."""
        return await self._call("release_terminal", params)

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


class RemoteAgent(Remote):
    """The agent, as a client calls it. `initialized` has the result of `initialize`."""

    spec = SPEC

    initialized: t.InitializeResponse

    def __init__(self, connection: Connection, initialized: t.InitializeResponse) -> None:
        super().__init__(connection, initialized)
        self._knows_set_model_only = False

    def _decoder_for(self, method: Method) -> Callable[[bytes | Raw], Any]:
        decode = super()._decoder_for(method)
        if method.call not in SETUP_CALLS:
            return decode

        def decode_setup(text: bytes | Raw) -> Any:
            result = decode(text)
            if (option := models_in(bytes(text), result.config_options)) is None:
                return result
            self._knows_set_model_only = True
            return replace(result, config_options=[*(result.config_options or ()), option])

        return decode_setup

    async def set_session_config_option(
        self, params: t.SetSessionConfigOptionRequest
    ) -> t.SetSessionConfigOptionResponse:
        """Set a config option; return all options, or none if the agent does not report them."""
        if self._knows_set_model_only and (early := set_model(params)) is not None:
            await self._call_method(SET_SESSION_MODEL, early)
            return t.SetSessionConfigOptionResponse(config_options=[])
        return await self._call("set_session_config_option", params)

    async def authenticate(self, params: t.AuthenticateRequest) -> t.AuthenticateResponse:
        """Log in with one of the advertised methods, never a terminal one (R-AUTH-08)."""
        known = self.initialized.auth_methods
        if not any(isinstance(m, t.AuthMethodAgent) and m.id == params.method_id for m in known):
            raise LocalProtocolError(
                f"{params.method_id!r} is not an auth method of type 'agent' that the agent"
                " advertises"
            )
        return await self._call("authenticate", params)

    async def cancel(self, params: t.CancelNotification) -> None:
        """Cancel a turn; its permission requests are answered `cancelled` (R-CANCEL-03)."""
        await self._notify("session/cancel", params)
        self.connection.cancel_where(
            lambda method, asked: (
                method == "session/request_permission" and asked.session_id == params.session_id
            )
        )

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

    async def logout(self, params: t.LogoutRequest) -> t.LogoutResponse:
        """Log out."""
        return await self._call("logout", params)

    async def auth_status(self, params: t.AuthStatusRequest) -> t.AuthStatusResponse:
        """Return whether the user is logged in."""
        return await self._call("auth_status", params)

    async def new_session(self, params: t.NewSessionRequest) -> t.NewSessionResponse:
        """Create a session."""
        return await self._call("new_session", params)

    async def load_session(
        self,
        params: t.LoadSessionRequest,
        *,
        opened: Callable[[t.LoadSessionResponse], None] | None = None,
    ) -> t.LoadSessionResponse:
        """Open a stored session; return when its replay has been handled.

        `opened` gets the response before any later message of the agent is handled.
        """
        return await self._call("load_session", params, opened)

    async def resume_session(
        self,
        params: t.ResumeSessionRequest,
        *,
        opened: Callable[[t.ResumeSessionResponse], None] | None = None,
    ) -> t.ResumeSessionResponse:
        """Open a stored session without a replay.

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

    async def prompt(self, params: t.PromptRequest) -> t.PromptResponse:
        """Send a prompt; returns when the turn is over and all its updates are handled."""
        return await self._call("prompt", params)

    async def set_session_mode(self, params: t.SetSessionModeRequest) -> t.SetSessionModeResponse:
        """Switch the mode of a session."""
        return await self._call("set_session_mode", params)

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
