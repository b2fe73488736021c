"""The program `accord`: one file for each of its commands."""

from __future__ import annotations

__all__ = ()
