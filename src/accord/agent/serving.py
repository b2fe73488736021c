"""Serves an agent: one connection, in the version that the client speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accord import router
from accord.agent.host import Host, hosts_of
from accord.connection import Observer
from accord.routes import Limits
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
    host = Host(agent, most_sessions=(limits or Limits()).sessions)
    hosts_of(agent).add(host)

    def make_v1() -> Any:
        from accord.agent.role_v1 import role_for

        if not _has_extras(agent):
            return role_for(host)
        from accord.agent.extras_v1 import extra_roles

        return role_for(host, *extra_roles(agent))

    def make_v2() -> Any:
        from accord.agent.role_v2 import role_for

        if not _has_extras(agent):
            return role_for(host)
        from accord.agent.extras_v2 import extra_roles

        return role_for(host, *extra_roles(agent))

    versions = router.LazyRole(1, make_v1), router.LazyRole(2, make_v2)
    try:
        await router.serve(transport, *versions, limits=limits, observers=observers)
    finally:
        hosts_of(agent).discard(host)
        await host.aclose()


def _has_extras(agent: Agent) -> bool:
    """Tell whether it may have a mix-in, without importing them."""
    return any(hasattr(agent, name) for name in ("logins", "list_providers", "suggest_nes"))
