"""The versions: of this package, and of the protocol."""

from __future__ import annotations

from typing import Literal, TypeAlias

__version__ = "0.1.0"

ProtocolVersion: TypeAlias = Literal[1, 2]
PROTOCOL_VERSIONS: tuple[ProtocolVersion, ...] = (1, 2)
