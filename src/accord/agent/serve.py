"""Serves an agent on one connection, in the version that the client speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accord import roles
from accord.agent.agent_connection import AgentConnection, connections_of
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.transports.base import Transport, TransportFactory

if TYPE_CHECKING:
    from accord.agent.hooks import AgentHooks

__all__ = ("serve",)


async def serve(
    agent: AgentHooks,
    transport: TransportFactory | Transport,
    *,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one client until it disconnects; raise `TransportError` if the transport fails."""
    connection = AgentConnection(agent, max_sessions=(limits or Limits()).sessions)
    connections_of(agent).add(connection)

    # Only the version that the client speaks is imported.

    def make_v1() -> Any:
        from accord.agent.v1.role import AgentRoleV1

        return AgentRoleV1(connection)

    def make_v2() -> Any:
        from accord.agent.v2.role import AgentRoleV2

        return AgentRoleV2(connection)

    versions = roles.LazyRole(1, make_v1), roles.LazyRole(2, make_v2)
    try:
        await roles.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        connections_of(agent).discard(connection)
        await connection.aclose()
