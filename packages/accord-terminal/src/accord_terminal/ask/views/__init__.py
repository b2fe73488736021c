"""The ways in which `accord ask` shows a turn; the one for people is in `screen`."""

from __future__ import annotations

__all__ = ()
