"""Serves an agent on one connection, in the version that the client speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from accord import roles
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.transports.base import Transport, TransportFactory

if TYPE_CHECKING:
    from accord.agent.agent import AgentHooks
    from accord.agent.client_adapter import ClientAdapter
    from accord.agent.handlers import SharedHandlers
    from accord.agent.role import RoleConnection
    from accord.agent.session import ConnectedClient, Session
    from accord.agent.session_core import SessionCore
    from accord.agent.session_manager import SessionManager
    from accord.types.auth import AuthAccount, AuthState
    from accord.version import ProtocolVersion

# The connections of an agent, and the sessions that are open on them.


class OpenConnection(Protocol):
    """A connection of an agent; see `AgentConnection`."""

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has been handled."""
        ...

    @property
    def client(self) -> ConnectedClient:
        """The client."""
        ...

    async def send_auth_status(self, state: AuthState, accounts: tuple[AuthAccount, ...]) -> None:
        """Send the auth status to the client, if it has asked for it and the status changed."""
        ...


class SessionOwner(Protocol):
    """What has a session open: the session manager of a connection."""

    async def close_locked(self, session_id: str, *, taken_over: bool = False) -> None:
        """Close a session; the caller holds its lock. The client is notified if `taken_over`."""
        ...

    def session(self, session_id: str) -> SessionCore:
        """Return an open session."""
        ...

    def set_users_title(self, session_id: str, title: str) -> None:
        """Set the title of an open session; the agent can no longer change it."""
        ...


class Registry:
    """The open sessions by id, who has them open, and a lock for each."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.owners: dict[str, SessionOwner] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def add(self, session: Session, owner: SessionOwner) -> None:
        """Record that a session is open."""
        self.sessions[session.id] = session
        self.owners[session.id] = owner

    def remove(self, session_id: str) -> None:
        """Record that a session is closed."""
        self.sessions.pop(session_id, None)
        self.owners.pop(session_id, None)

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock to hold while a session is opened or closed."""
        return self._locks.setdefault(session_id, asyncio.Lock())


def registry_of(agent: object) -> Registry:
    """Return the registry of an agent."""
    state = vars(agent)
    registry = state.get("_registry")
    if registry is None:
        registry = state["_registry"] = Registry()
    return registry


def connections_of(agent: object) -> set[OpenConnection]:
    """Return the connections of an agent."""
    return vars(agent).setdefault("_connections", set())


# Imports parts of the agent's side when they are first used: editors start agents often.
#
# `initialize` needs the role of one version and nothing of what sessions need. No other module of
# this package imports inside functions.


def role(version: ProtocolVersion, connection: RoleConnection) -> Any:
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


def session_manager(
    agent: AgentHooks, adapter: ClientAdapter, *, max_sessions: int, principal: str | None
) -> SessionManager:
    """Return the manager of the sessions of one connection."""
    from accord.agent.session_manager import SessionManager

    stored_sessions = None
    if agent.store is not None:
        from accord.agent.store.stored_sessions import StoredSessions

        stored_sessions = StoredSessions(agent.store, principal)
    return SessionManager(
        agent, adapter, stored_sessions, max_sessions=max_sessions, principal=principal
    )


def handlers(version: ProtocolVersion, manager: SessionManager) -> SharedHandlers:
    """Return what handles all requests but `initialize`."""
    if version == 1:
        from accord.agent.v1_handlers import HandlersV1

        return HandlersV1(manager)
    from accord.agent.v2_handlers import HandlersV2

    return HandlersV2(manager)


# One connection of an agent, which gets its sessions with the first request for one.


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
            self._manager = session_manager(
                self.agent,
                self._make_adapter(),
                max_sessions=self.max_sessions,
                principal=self.principal,
            )
        return self._manager

    def load_handlers(self, version: ProtocolVersion) -> SharedHandlers:
        """Return what handles all requests but `initialize`."""
        return handlers(version, self.manager)

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
        roles.LazyRole(1, partial(role, 1, connection)),
        roles.LazyRole(2, partial(role, 2, connection)),
    )
    try:
        await roles.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        connections_of(agent).discard(connection)
        await connection.aclose()
