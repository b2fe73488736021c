"""Reports of a run as files, one format per file."""

from __future__ import annotations

__all__ = ()
