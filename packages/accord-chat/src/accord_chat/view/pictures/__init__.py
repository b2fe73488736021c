"""Images on the screen: decoded within bounds, as half cells or as graphics of the terminal."""

from __future__ import annotations

__all__ = ()
