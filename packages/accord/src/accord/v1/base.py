"""The parts of the roles of version 1 that its tables do not say.

The classes of `roles`, which is generated, add one method for each row of `methods.METHODS` that
has none here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Raw

from accord.connection.connection import Connection
from accord.errors import LocalProtocolError, ResourceNotFound
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
from accord.v1 import types as t
from accord.v1.early_spellings import SET_SESSION_MODEL, SETUP_CALLS, models_in, set_model
from accord.v1.methods import SPEC
from accord.wire.base import replace
from accord.wire.protocol import Method

ContextT = TypeVar("ContextT", bound=AgentContext[Any])


class RemoteClientBase(Remote):
    """The client, as an agent calls it. `initialized` has the params of `initialize`."""

    spec = SPEC
    initialized: t.InitializeRequest

    def session_update(self, params: t.SessionNotification) -> Coroutine[Any, Any, None]:
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

    async def set_session_config_option(
        self, params: t.SetSessionConfigOptionRequest
    ) -> t.SetSessionConfigOptionResponse:
        """Set a config option; return all options, or none if the agent does not report them."""
        if self._knows_set_model_only and (early := set_model(params)) is not None:
            await self._call_method(SET_SESSION_MODEL, early)
            return t.SetSessionConfigOptionResponse(config_options=[])
        return await self._call("set_session_config_option", params)


class AgentRoleBase(Role[RemoteT_co], Generic[RemoteT_co, ContextT]):
    """An agent of version 1: `initialize`, and the cancellation that every agent serves."""

    spec = SPEC
    always_served: ClassVar[frozenset[str]] = frozenset({"cancel"})

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
            check_offered_methods(self, "auth_methods", "authenticate")  # R-AUTH-04
        return t.InitializeResponse(
            protocol_version=1,
            agent_info=self.info or t.Implementation(name=type(self).__name__, version="0"),
            agent_capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def cancel(self, params: t.CancelNotification, context: ContextT) -> MaybeAwaitable[None]:
        """Cancel the turn of a session; by default cancel its prompt handler."""
        context.cancel_prompts(params.session_id)


class ClientRoleBase(Role[RemoteT_co]):
    """A client of version 1: what it sends in `initialize`."""

    spec = SPEC

    info: t.Implementation | None = None

    def capabilities(self) -> t.ClientCapabilities:
        """Return the capabilities; by default those that the overridden methods imply."""
        return derived_capabilities(self)

    def initialize_params(self) -> t.InitializeRequest:
        """Return name and capabilities; the handshake sets the version."""
        return t.InitializeRequest(
            protocol_version=1,
            client_info=self.info or t.Implementation(name=type(self).__name__, version="0"),
            client_capabilities=self.capabilities(),
        )

    def advertises_capabilities(self) -> bool:
        """Return True if the capabilities are worth a second `initialize` (R-INIT-15).

        It is sent to an agent of another version, which has not read those of the first.
        """
        return self.capabilities() != t.ClientCapabilities()
