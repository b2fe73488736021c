"""`accord chat --lines`: the chat in plain lines, for screen readers and simple terminals."""

from __future__ import annotations

__all__ = ()
