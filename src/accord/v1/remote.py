"""The other side, to call: every method of version 1 that it may serve."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Raw

from accord.connection.connection import Connection
from accord.errors import LocalProtocolError, ResourceNotFound
from accord.roles.binding import Remote
from accord.rules.quirks import tolerates
from accord.v1.auth import (
    AuthenticateRequest,
    AuthenticateResponse,
    AuthMethodAgent,
    AuthStatusRequest,
    AuthStatusResponse,
    AuthStatusUpdateNotification,
    LogoutRequest,
    LogoutResponse,
)
from accord.v1.config import SetSessionConfigOptionRequest, SetSessionConfigOptionResponse
from accord.v1.early_spellings import SET_SESSION_MODEL, SETUP_CALLS, models_in, set_model
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
from accord.v1.initialize import InitializeRequest, InitializeResponse
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
from accord.wire.base import replace
from accord.wire.method import Method
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

    def session_update(self, params: SessionNotification) -> Coroutine[Any, Any, None]:
        """Report what happened in a session; waits while the client reads slower."""
        self._check("session/update", params.update)
        return self.connection.notify("session/update", params)

    async def create_elicitation(
        self, params: CreateElicitationRequest
    ) -> CreateElicitationResponse:
        """Ask the user for input, by a form or a URL."""
        self._check("elicitation/create", params)
        return await self._call("create_elicitation", params)

    async def auth_status_update(self, params: AuthStatusUpdateNotification) -> None:
        """Report a change of the login state."""
        await self._notify("auth/status_update", params)

    async def request_permission(
        self, params: RequestPermissionRequest
    ) -> RequestPermissionResponse:
        """Ask the user to decide on an operation."""
        return await self._call("request_permission", params)

    async def complete_elicitation(self, params: CompleteElicitationNotification) -> None:
        """Say that an elicitation by URL is done."""
        await self._notify("elicitation/complete", params)

    async def read_text_file(self, params: ReadTextFileRequest) -> ReadTextFileResponse:
        """Read a file of the client, unsaved changes included."""
        return await self._call("read_text_file", params)

    async def write_text_file(self, params: WriteTextFileRequest) -> WriteTextFileResponse:
        """Write a file; it is created when missing."""
        return await self._call("write_text_file", params)

    async def create_terminal(self, params: CreateTerminalRequest) -> CreateTerminalResponse:
        """Start a command in the client; returns at once with the id of its terminal."""
        return await self._call("create_terminal", params)

    async def terminal_output(self, params: TerminalOutputRequest) -> TerminalOutputResponse:
        """Return what a terminal of the client has printed so far."""
        return await self._call("terminal_output", params)

    async def wait_for_terminal_exit(
        self, params: WaitForTerminalExitRequest
    ) -> WaitForTerminalExitResponse:
        """Return when the command of a terminal has ended."""
        return await self._call("wait_for_terminal_exit", params)

    async def kill_terminal(self, params: KillTerminalRequest) -> KillTerminalResponse:
        """End the command of a terminal; the terminal stays."""
        return await self._call("kill_terminal", params)

    async def release_terminal(self, params: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
        """End the command of a terminal and free it."""
        return await self._call("release_terminal", params)

    async def message_mcp(self, params: MessageMcpRequest) -> MessageMcpResponse:
        """Pass a request to an MCP server that the client provides."""
        return await self._call("message_mcp", params)


class RemoteAgent(Remote):
    """The agent, as a client calls it. `initialized` is what the agent said of itself."""

    kit = SPEC

    def __init__(self, connection: Connection, initialized: InitializeResponse) -> None:
        super().__init__(connection)
        self.initialized = initialized
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
        self, params: SetSessionConfigOptionRequest
    ) -> SetSessionConfigOptionResponse:
        """Set a config option; returns all of them, or none where the agent does not say."""
        if self._knows_set_model_only and (early := set_model(params)) is not None:
            await self._call_method(SET_SESSION_MODEL, early)
            return SetSessionConfigOptionResponse(config_options=[])
        return await self._call("set_session_config_option", params)

    async def authenticate(self, params: AuthenticateRequest) -> AuthenticateResponse:
        """Log in with one of the advertised methods, never a terminal one (R-AUTH-08)."""
        known = self.initialized.auth_methods
        if not any(isinstance(m, AuthMethodAgent) and m.id == params.method_id for m in known):
            raise LocalProtocolError(
                f"{params.method_id!r} is no login that the agent offers to do by itself"
            )
        return await self._call("authenticate", params)

    async def cancel(self, params: CancelNotification) -> None:
        """Cancel a turn; its permission requests are answered `cancelled` (R-CANCEL-03)."""
        await self._notify("session/cancel", params)
        self.connection.cancel_where(
            lambda method, asked: (
                method == "session/request_permission" and asked.session_id == params.session_id
            )
        )

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

    async def logout(self, params: LogoutRequest) -> LogoutResponse:
        """Log out."""
        return await self._call("logout", params)

    async def auth_status(self, params: AuthStatusRequest) -> AuthStatusResponse:
        """Return whether the user is logged in."""
        return await self._call("auth_status", params)

    async def new_session(self, params: NewSessionRequest) -> NewSessionResponse:
        """Create a session."""
        return await self._call("new_session", params)

    async def load_session(
        self,
        params: LoadSessionRequest,
        *,
        opened: Callable[[LoadSessionResponse], None] | None = None,
    ) -> LoadSessionResponse:
        """Open a stored session; returns when its replay has been handled.

        `opened` gets the response before any later message of the agent is handled.
        """
        return await self._call("load_session", params, opened)

    async def resume_session(
        self,
        params: ResumeSessionRequest,
        *,
        opened: Callable[[ResumeSessionResponse], None] | None = None,
    ) -> ResumeSessionResponse:
        """Open a stored session without a replay.

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

    async def prompt(self, params: PromptRequest) -> PromptResponse:
        """Send a prompt; returns when the turn is over and all its updates are handled."""
        return await self._call("prompt", params)

    async def set_session_mode(self, params: SetSessionModeRequest) -> SetSessionModeResponse:
        """Switch the mode of a session."""
        return await self._call("set_session_mode", params)

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

    async def start_nes(self, params: StartNesRequest) -> StartNesResponse:
        """Begin a session of next edit suggestions."""
        return await self._call("start_nes", params)

    async def suggest_nes(self, params: SuggestNesRequest) -> SuggestNesResponse:
        """Suggest the next edits."""
        return await self._call("suggest_nes", params)

    async def accept_nes(self, params: AcceptNesNotification) -> None:
        """Say that a suggestion was accepted."""
        await self._notify("nes/accept", params)

    async def reject_nes(self, params: RejectNesNotification) -> None:
        """Say that a suggestion was rejected."""
        await self._notify("nes/reject", params)

    async def close_nes(self, params: CloseNesRequest) -> CloseNesResponse:
        """End a session of next edit suggestions."""
        return await self._call("close_nes", params)

    async def did_open_document(self, params: DidOpenDocumentNotification) -> None:
        """Say that a document was opened."""
        await self._notify("document/didOpen", params)

    async def did_change_document(self, params: DidChangeDocumentNotification) -> None:
        """Say that a document was changed."""
        await self._notify("document/didChange", params)

    async def did_close_document(self, params: DidCloseDocumentNotification) -> None:
        """Say that a document was closed."""
        await self._notify("document/didClose", params)

    async def did_save_document(self, params: DidSaveDocumentNotification) -> None:
        """Say that a document was saved."""
        await self._notify("document/didSave", params)

    async def did_focus_document(self, params: DidFocusDocumentNotification) -> None:
        """Say that a document came into focus."""
        await self._notify("document/didFocus", params)
