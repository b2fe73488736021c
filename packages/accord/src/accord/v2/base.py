"""The parts of the roles of version 2 that its tables do not say.

The classes of `roles`, which is generated, add one method for each row of `methods.METHODS` that
has none here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from accord.connection.connection import Connection
from accord.errors import InvalidParams, LocalProtocolError, NotOffered, ResourceNotFound
from accord.roles.binding import (
    AgentContext,
    MaybeAwaitable,
    RemoteT_co,
    Role,
    check_offered_methods,
    derived_capabilities,
)
from accord.roles.remote import Remote
from accord.rules.quirks import tolerates
from accord.v2 import types as t
from accord.v2.methods import SPEC

ContextT = TypeVar("ContextT", bound=AgentContext[Any])


class RemoteClientBase(Remote):
    """The client, as an agent calls it. `initialized` has the params of `initialize`."""

    spec = SPEC
    initialized: t.InitializeRequest

    def session_update(self, params: t.UpdateSessionNotification) -> Coroutine[Any, Any, None]:
        """Send an update of a session; wait while the transport is congested."""
        self._check("session/update", params.update)
        return self.connection.notify("session/update", params)

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


class RemoteAgentBase(Remote):
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

    async def logout(self, params: t.LogoutAuthRequest) -> t.LogoutAuthResponse:
        """Log out, if the agent advertises auth methods (R-AUTH-05)."""
        if not self.initialized.auth_methods:
            raise NotOffered("auth/logout", "agent.authMethods")
        return await self._call("logout", params)

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

    async def prompt(
        self, params: t.PromptRequest, *, inserted: Callable[[t.PromptResponse], None] | None = None
    ) -> t.PromptResponse:
        """Send a prompt; return when the agent has inserted it.

        `inserted` is called before the updates after the response are handled.
        """
        return await self._call("prompt", params, inserted)


class AgentRoleBase(Role[RemoteT_co], Generic[RemoteT_co, ContextT]):
    """An agent of version 2: `initialize`, and the cancellation that every agent serves."""

    spec = SPEC
    always_served: ClassVar[frozenset[str]] = frozenset(
        {"cancel", "cancel_tool_call", "cancel_terminal"}
    )

    info: t.Implementation | None = None
    auth_methods: Sequence[t.AuthMethod] = ()

    def capabilities(self) -> t.AgentCapabilities:
        """Return the capabilities; by default those that the overridden methods imply."""
        return derived_capabilities(self)

    def initialize(
        self, params: t.InitializeRequest, context: ContextT
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
        self, params: t.CancelSessionNotification, context: ContextT
    ) -> MaybeAwaitable[None]:
        """Cancel the foreground work; by default cancel prompts that are not inserted (-32800)."""
        context.cancel_prompts(params.session_id)

    def cancel_tool_call(
        self, params: t.CancelToolCallRequest, context: ContextT
    ) -> MaybeAwaitable[t.CancelToolCallResponse]:
        """Cancel one tool call; the result means that this is accepted (R-TCAN-04)."""
        raise InvalidParams("The tool call cannot be cancelled")  # R-TCAN-05

    def cancel_terminal(
        self, params: t.CancelTerminalRequest, context: ContextT
    ) -> MaybeAwaitable[t.CancelTerminalResponse]:
        """Stop one terminal; the result means that this is accepted (R-TCAN-04)."""
        raise InvalidParams("The terminal cannot be cancelled")  # R-TCAN-05


class ClientRoleBase(Role[RemoteT_co]):
    """A client of version 2: what it sends in `initialize`."""

    spec = SPEC

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
