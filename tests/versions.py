"""The protocol's versions as parameters of tests."""

from __future__ import annotations

from typing import cast

from accord.version import ProtocolVersion


def only(version: int) -> tuple[ProtocolVersion]:
    """Return `versions` for a connection that must use this version."""
    assert version in (1, 2)
    return (cast("ProtocolVersion", version),)
