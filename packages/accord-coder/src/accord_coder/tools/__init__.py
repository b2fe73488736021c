"""The tools of models: one file for each kind; `registry.py` lists them."""

from __future__ import annotations

__all__ = ()
