"""What models can do: one file for each sort of tool; `table.py` lists them all."""

from __future__ import annotations

__all__ = ()
