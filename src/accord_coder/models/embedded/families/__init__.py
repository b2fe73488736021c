"""The requests that are understood: one file for each family, with its recipes."""

from __future__ import annotations

__all__ = ()
