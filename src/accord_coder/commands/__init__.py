"""What the user can type after a slash."""

from __future__ import annotations

__all__ = ()
