"""The slash commands."""

from __future__ import annotations

__all__ = ()
