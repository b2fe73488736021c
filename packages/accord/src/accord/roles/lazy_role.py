"""Roles that are created, and perhaps imported, once their version is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from msgspec import Struct

from accord.roles.binding import RemoteT_co, Role
from accord.version import ProtocolVersion
from accord.wire.protocol import Side


class LazyRole(Struct, Generic[RemoteT_co], frozen=True):
    """A role of a version; `make` returns it when the version is chosen."""

    version: ProtocolVersion
    make: Callable[[], Role[RemoteT_co]]


class RolesByVersion:
    """The roles of one side, at most one for each version."""

    def __init__(self, roles: Sequence[Role[Any] | LazyRole[Any]], side: Side) -> None:
        for role in roles:
            # Passing a class or a role of the other side is an easy mistake.
            if not isinstance(role, LazyRole) and (isinstance(role, type) or role.side != side):
                raise TypeError(f"Expected role objects of the {side}, got {role!r}")
        self._roles: dict[ProtocolVersion, Role[Any] | LazyRole[Any]] = {
            role.version if isinstance(role, LazyRole) else role.spec.version: role
            for role in roles
        }
        if not roles or len(self._roles) != len(roles):
            raise ValueError("Expected one role object, or one of each protocol version")

    @property
    def versions(self) -> frozenset[ProtocolVersion]:
        """The versions of the roles."""
        return frozenset(self._roles)

    def get(self, version: ProtocolVersion) -> Any:
        """Return the role of a version; a lazy one is made on the first call."""
        role = self._roles[version]
        if isinstance(role, LazyRole):
            role = self._roles[version] = role.make()
        return role
