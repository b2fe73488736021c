"""The common part of the runs against agents and clients."""

from __future__ import annotations

__all__ = ()
