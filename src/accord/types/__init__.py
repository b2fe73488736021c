"""What both sides talk about, the same in every version of the protocol: layer 6's values."""

from __future__ import annotations

__all__ = ()
