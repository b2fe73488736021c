"""Serves an agent: one connection, in the version that the client speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accord import roles
from accord.agent.session_manager import SessionManager, managers_of
from accord.connection.connection import Observer
from accord.connection.limits import Limits
from accord.transports.base import Transport

if TYPE_CHECKING:
    from accord.agent.agent import Agent

__all__ = ("serve",)


async def serve(
    agent: Agent,
    transport: Transport,
    *,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one client until it hangs up; raise `TransportError` when there is no way to it."""
    host = SessionManager(agent, max_sessions=(limits or Limits()).sessions)
    managers_of(agent).add(host)

    def make_v1() -> Any:
        from accord.agent.v1.role import role_for

        if not _has_extras(agent):
            return role_for(host)
        from accord.agent.v1.mixin_roles import mixin_roles

        return role_for(host, *mixin_roles(agent))

    def make_v2() -> Any:
        from accord.agent.v2.role import role_for

        if not _has_extras(agent):
            return role_for(host)
        from accord.agent.v2.mixin_roles import mixin_roles

        return role_for(host, *mixin_roles(agent))

    versions = roles.LazyRole(1, make_v1), roles.LazyRole(2, make_v2)
    try:
        await roles.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        managers_of(agent).discard(host)
        await host.aclose()


def _has_extras(agent: Agent) -> bool:
    """Tell whether it may have a mix-in, without importing them."""
    return any(hasattr(agent, name) for name in ("auth_methods", "list_providers", "suggest_nes"))
