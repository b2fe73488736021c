"""Serves an agent on one connection, in the version that the client speaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from accord import roles
from accord.agent import lazy_imports
from accord.agent.agent_connection import AgentConnection
from accord.agent.registry import connections_of
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.transports.base import Transport, TransportFactory

if TYPE_CHECKING:
    from accord.agent.hooks import AgentHooks


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
        roles.LazyRole(1, partial(lazy_imports.role, 1, connection)),
        roles.LazyRole(2, partial(lazy_imports.role, 2, connection)),
    )
    try:
        await roles.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        connections_of(agent).discard(connection)
        await connection.aclose()
