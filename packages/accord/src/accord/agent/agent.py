"""The base class of agents: the methods and attributes it sets decide what it advertises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from accord.agent.hooks import check_hooks
from accord.agent.registry import connections_of, registry_of
from accord.agent.serve import serve
from accord.connection.routes import not_served
from accord.errors import MethodNotFound
from accord.local.run import run_program
from accord.transports.stdio import stdio

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.agent.session import ConnectedClient, Session, ToolCallHandle
    from accord.agent.store.base import SessionStore
    from accord.agent.turn import Turn
    from accord.transports.base import Transport, TransportFactory
    from accord.types.session import Implementation, StopReason
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
