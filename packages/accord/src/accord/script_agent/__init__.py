"""A test agent for developers of clients: each prompt is a command."""

from __future__ import annotations

__all__ = ()
