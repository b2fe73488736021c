"""One connection of an agent; what only sessions need is imported with the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.hooks import AgentHooks
    from accord.agent.session import ConnectedClient
    from accord.agent.session_manager import SessionManager

__all__ = ("AgentConnection", "connections_of")


class AgentConnection:
    """A connection of an agent, from its start on; `initialize` makes it known to the agent."""

    def __init__(self, agent: AgentHooks, *, max_sessions: int) -> None:
        self.agent = agent
        self.max_sessions = max_sessions
        self._manager: SessionManager | None = None
        self._make_adapter: Callable[[], ClientAdapter] | None = None

    def set_client(self, make_adapter: Callable[[], ClientAdapter]) -> None:
        """Complete `initialize`, which version 1 allows to repeat."""
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
            # The lazy seam: an editor starts agents often, and `initialize` needs none of this.
            from accord.agent.session_manager import SessionManager

            stored_log = None
            if self.agent.store is not None:
                from accord.agent.store.session_log import SessionLog

                stored_log = SessionLog(self.agent.store)
            assert self._make_adapter is not None, "initialize has been handled"
            self._manager = SessionManager(
                self.agent, self._make_adapter(), stored_log, max_sessions=self.max_sessions
            )
        return self._manager

    @property
    def has_manager(self) -> bool:
        """Whether the client has sent anything but `initialize`."""
        return self._manager is not None

    @property
    def client(self) -> ConnectedClient:
        """The client."""
        return self.manager.client

    async def aclose(self) -> None:
        """Close all sessions; the client has disconnected."""
        if self._manager is not None:
            await self._manager.aclose()


def connections_of(agent: object) -> set[AgentConnection]:
    """Return the connections of an agent."""
    return vars(agent).setdefault("_connections", set())
