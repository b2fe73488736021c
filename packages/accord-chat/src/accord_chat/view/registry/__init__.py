"""The screens of the registry of agents."""

from __future__ import annotations

__all__ = ()
