"""`accord inspect`: a web page that shows the messages between a client and an agent."""

from __future__ import annotations

__all__ = ()
