"""The base class of agents, and the connections that serve them.

`Agent` is what a program derives from: the methods and attributes it sets decide what it
advertises. `serve` serves an agent on one connection, in the version that the client speaks.
Editors start agents often: this module imports what `initialize` does not need when it is first
used. No other module of the package imports inside functions, except the library `mcp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from accord import roles
from accord.agent.hooks import check_hooks, connections_of, registry_of
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.connection.routes import not_served
from accord.errors import MethodNotFound
from accord.local.run import run_program
from accord.transports.base import Transport, TransportFactory
from accord.transports.stdio import stdio

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.handlers import SharedHandlers
    from accord.agent.hooks import AgentHooks
    from accord.agent.role import RoleConnection
    from accord.agent.session import ConnectedClient, Session, ToolCallHandle, Turn
    from accord.agent.session_manager import SessionManager
    from accord.agent.store import SessionStore
    from accord.agent.work import SteeringMessage
    from accord.types.session import AuthAccount, AuthState, Implementation, StopReason
    from accord.version import ProtocolVersion
    from accord.wire.protocol import ProtocolSpec


class Agent:
    """The base class of agents, written once for both protocol versions.

    Override `prompt`. A method that you override is advertised to clients as a capability.
    """

    info: Implementation | None = None
    """The name and version of the agent; by default the name of the class."""
    prompt_capabilities: frozenset[str] = frozenset()
    """The content that prompts may have in addition to text and links: image, audio, resource."""
    mcp_transports: frozenset[str] = frozenset()
    """How the agent connects to MCP servers: stdio, http, sse, acp (unstable).

    `session.connect_mcp` connects to servers of all four kinds.
    """
    system_prompt: frozenset[str] = frozenset()
    """The accepted modes of a system prompt of the client: append, override (unstable)."""
    store: SessionStore | None = None
    """Where sessions are stored, so that they can be listed, loaded, resumed and deleted."""
    steering: bool = False
    """Whether `prompt` reads what the user says while it works: see `Turn.steering`."""
    reports: frozenset[Literal["tokens", "cost"]] = frozenset()
    """What the agent reports of what it uses, so that clients can limit it."""
    unstable: bool = False
    """Whether the agent supports unstable parts of the protocol.

    Then sessions can be forked, renamed and archived and have a status, subagents are shown, etc.
    """
    spec_v1: ProtocolSpec | None = None
    """Version 1 with a protocol family added to it."""

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        check_hooks(cls)

    async def prompt(self, turn: Turn) -> StopReason | None:
        """Work on a prompt; return the stop reason, None for "end_turn".

        A cancel cancels this coroutine. The stop reason is then `cancelled`, however it ends.
        """
        raise MethodNotFound

    async def steer(self, turn: Turn, message: SteeringMessage) -> None:
        """Take what the user says while a turn runs; by default `turn.steering` gives it.

        Override it to put the message where your model reads it before its next step. Raise
        `RequestError` to refuse it. Clients see that the agent can be steered if it is
        overridden, or if `steering` is true.
        """
        turn.add_steering(message)

    async def open_session(self, session: Session) -> None:
        """Set up a session that is new or reopened: its options, commands and data."""

    async def close_session(self, session: Session) -> None:
        """Release what a session holds. Its turn has ended."""

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Apply the user's choice, which is a valid value of the option.

        Raise to refuse it. The session has the old value until this returns.
        """

    def check_auth(self) -> None:
        """Raise `AuthRequired` if the user has to log in; called before every operation."""

    def check_prompt_auth(self, session: Session) -> None:
        """Raise `AuthRequired` for a prompt, if sessions require different logins."""
        self.check_auth()

    async def decide_permission(self, call: ToolCallHandle) -> bool | None:
        """Decide on a tool call that asks for permission; return None to ask the user."""
        return None

    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any:
        """Handle a request whose method begins with an underscore; `params` are JSON.

        Return JSON, or raise `RequestError`; `MethodNotFound` by default (R-EXT-06).
        """
        raise not_served(method, True)

    async def extension_notification(
        self, method: str, params: Any, client: ConnectedClient
    ) -> None:
        """Handle a notification whose method begins with an underscore; ignored by default."""

    async def aclose(self) -> None:
        """Release what the agent holds; called when `run` ends."""
        if self.store is not None:
            await self.store.aclose()

    def capabilities_v1(self, derived: v1.AgentCapabilities) -> v1.AgentCapabilities:
        """Return the capabilities to advertise in version 1; by default the derived ones."""
        return derived

    def capabilities_v2(self, derived: v2.AgentCapabilities) -> v2.AgentCapabilities:
        """Return the capabilities to advertise in version 2; by default the derived ones."""
        return derived

    def handlers_v1(self) -> Mapping[str, Callable[[Any], object]]:
        """Return handlers for methods that `spec_v1` adds, by call; each gets the params."""
        return {}

    @property
    def sessions(self) -> dict[str, Session]:
        """The open sessions of all connections, by id.

        A session is open once. When a client opens a stored session that is open in another
        client, its work there is cancelled and it is closed there.
        """
        return registry_of(self).sessions

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, clients: {len(self.clients)}>"

    @property
    def clients(self) -> tuple[ConnectedClient, ...]:
        """The connected clients."""
        return tuple(c.client for c in connections_of(self) if c.is_initialized)

    def run(self, transport: TransportFactory | Transport | None = None) -> None:
        """Serve one client in either version until it disconnects, and then `aclose`.

        The default transport is stdin and stdout. A function is called on the event loop.
        """
        if transport is None:
            transport = stdio(restore=False)

        async def serve_it() -> None:
            try:
                await serve(self, transport)
            finally:
                await self.aclose()

        run_program(serve_it())


async def serve(
    agent: AgentHooks,
    transport: TransportFactory | Transport,
    *,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    principal: str | None = None,
) -> None:
    """Serve one client until it disconnects; raise `TransportError` if the transport fails.

    Sessions that are opened belong to `principal`. If it is given, the client neither sees nor
    uses the sessions of others.
    """
    max_sessions = (limits or Limits()).sessions
    connection = AgentConnection(agent, max_sessions=max_sessions, principal=principal)
    connections_of(agent).add(connection)

    # Only the version that the client speaks is imported.
    versions = (
        roles.LazyRole(1, partial(_role, 1, connection)),
        roles.LazyRole(2, partial(_role, 2, connection)),
    )
    try:
        await roles.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        connections_of(agent).discard(connection)
        await connection.aclose()


class AgentConnection:
    """A connection of an agent, from its start on; `initialize` makes it known to the agent."""

    def __init__(
        self, agent: AgentHooks, *, max_sessions: int, principal: str | None = None
    ) -> None:
        self.agent = agent
        self.principal = principal
        self.max_sessions = max_sessions
        self._manager: SessionManager | None = None
        self._make_adapter: Callable[[], ClientAdapter] | None = None

    def set_client(self, version: ProtocolVersion, params: Any, context: Any) -> None:
        """Complete `initialize`, which version 1 allows to repeat."""

        def make_adapter() -> ClientAdapter:
            return client_adapter(version, params, context, unstable=self.agent.unstable)

        self._make_adapter = make_adapter
        if self._manager is not None:
            self._manager.set_client_adapter(make_adapter())

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has been handled."""
        return self._make_adapter is not None

    @property
    def manager(self) -> SessionManager:
        """The sessions of the connection."""
        if self._manager is None:
            assert self._make_adapter is not None, "initialize has been handled"
            from accord.agent.session_manager import SessionManager

            stored_sessions = None
            if self.agent.store is not None:
                from accord.agent.store.stored_sessions import StoredSessions

                stored_sessions = StoredSessions(self.agent.store, self.principal)
            self._manager = SessionManager(
                self.agent,
                self._make_adapter(),
                stored_sessions,
                max_sessions=self.max_sessions,
                principal=self.principal,
            )
        return self._manager

    def load_handlers(self, version: ProtocolVersion) -> SharedHandlers:
        """Return what handles all requests but `initialize`."""
        if version == 1:
            from accord.agent.v1_handlers import HandlersV1

            return HandlersV1(self.manager)
        from accord.agent.v2_handlers import HandlersV2

        return HandlersV2(self.manager)

    async def send_auth_status(self, state: AuthState, accounts: tuple[AuthAccount, ...]) -> None:
        """Send the auth status to the client, if it has asked for it and the status changed."""
        if self._manager is not None:
            await self._manager.send_auth_status(state, accounts)

    @property
    def client(self) -> ConnectedClient:
        """The client."""
        return self.manager.client

    async def aclose(self) -> None:
        """Close all sessions; the client has disconnected."""
        if self._manager is not None:
            await self._manager.aclose()


def _role(version: ProtocolVersion, connection: RoleConnection) -> Any:
    """Return the role that serves a version on a connection."""
    if version == 1:
        from accord.agent.v1_role import AgentRoleV1

        return AgentRoleV1(connection)
    from accord.agent.v2_role import AgentRoleV2

    return AgentRoleV2(connection)


def client_adapter(
    version: ProtocolVersion, params: Any, context: Any, *, unstable: bool
) -> ClientAdapter:
    """Return the adapter for a client that has sent `initialize` with these params."""
    if version == 1:
        from accord.agent.v1 import ClientAdapterV1

        return ClientAdapterV1(params, context, unstable=unstable)
    from accord.agent.v2 import ClientAdapterV2

    return ClientAdapterV2(params, context, unstable=unstable)
