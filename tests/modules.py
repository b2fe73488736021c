"""Where the import packages are."""

from __future__ import annotations

from project import SOURCES

__all__ = ("SOURCES",)
