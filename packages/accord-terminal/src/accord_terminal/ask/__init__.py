"""`accord ask`: sends one prompt to an agent and shows the turn."""

from __future__ import annotations

__all__ = ()
