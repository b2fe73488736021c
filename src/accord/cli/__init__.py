"""The program `accord`: one module or folder for each command."""

from __future__ import annotations

__all__ = ()
