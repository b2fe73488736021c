"""One connection of an agent, which gets its sessions with the first request for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord.agent import lazy_imports

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.handlers import SharedHandlers
    from accord.agent.hooks import AgentHooks
    from accord.agent.session import ConnectedClient
    from accord.agent.session_manager import SessionManager
    from accord.types.session import AuthAccount, AuthState
    from accord.version import ProtocolVersion


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
            return lazy_imports.client_adapter(
                version, params, context, unstable=self.agent.unstable
            )

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
            self._manager = lazy_imports.session_manager(
                self.agent,
                self._make_adapter(),
                max_sessions=self.max_sessions,
                principal=self.principal,
            )
        return self._manager

    def load_handlers(self, version: ProtocolVersion) -> SharedHandlers:
        """Return what handles all requests but `initialize`."""
        return lazy_imports.handlers(version, self.manager)

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
