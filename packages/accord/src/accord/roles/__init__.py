"""Role objects on a connection: `serve` an agent, `connect` a client, in either version."""

from __future__ import annotations

from accord.roles.handshake import connect, serve
from accord.roles.lazy_role import LazyRole

__all__ = ("LazyRole", "connect", "serve")
