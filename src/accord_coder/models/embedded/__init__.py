"""The embedded model: no language model, no network; it does what plain requests say."""

from __future__ import annotations

__all__ = ()
