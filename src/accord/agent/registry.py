"""The sessions of an agent that are open, on all its connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from accord.agent.session import Session
    from accord.agent.session_core import SessionCore

__all__ = ("Registry", "SessionOwner", "registry_of")


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
