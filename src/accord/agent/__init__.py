"""Agents that are written once and speak both versions: layer 6."""

from __future__ import annotations

__all__ = ()
