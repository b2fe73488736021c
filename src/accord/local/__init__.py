"""This machine's files and processes, within bounds: what both sides do when they are asked."""

from __future__ import annotations

__all__ = ()
