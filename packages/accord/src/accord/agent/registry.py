"""The connections of an agent, and the sessions that are open on them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from accord.agent.session import ConnectedClient, Session
    from accord.agent.session_core import SessionCore
    from accord.types.session import AuthAccount, AuthState


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
