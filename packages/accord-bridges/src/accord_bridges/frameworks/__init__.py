"""The bridges to frameworks, a file each; `kinds` finds the one for an object."""

from __future__ import annotations

__all__ = ()
