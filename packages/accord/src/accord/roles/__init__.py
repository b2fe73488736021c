"""Role objects on a connection: `serve` an agent, `connect` a client, in either version.

`handshake` agrees on a version; `binding` makes the routes of a connection from a role: what a
class overrides is what it serves; `remote` calls the other side, and refuses what was not offered.
`proxy` is the base of typed proxies, `raw` serves every method without decoding its params.
"""

from __future__ import annotations

from accord.roles.binding import LazyRole
from accord.roles.handshake import connect, serve

__all__ = ("LazyRole", "connect", "serve")
