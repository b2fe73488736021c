"""What a run found (`report`), and the files that say so (`formats`)."""

from __future__ import annotations

__all__ = ()
