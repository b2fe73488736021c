"""An agent that does what it is told, for those who write clients."""

from __future__ import annotations

__all__ = ()
