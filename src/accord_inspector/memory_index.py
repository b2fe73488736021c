"""Empty: the index of messages is that of `accord.trace`."""

from __future__ import annotations

__all__ = ()
