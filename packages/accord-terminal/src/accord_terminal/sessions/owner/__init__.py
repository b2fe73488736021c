"""The process that holds an agent and its session, and serves them to many clients."""

from __future__ import annotations

__all__ = ()
