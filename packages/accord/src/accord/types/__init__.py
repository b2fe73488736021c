"""Values that clients and agents use, independent of the protocol version."""

from __future__ import annotations

__all__ = ()
