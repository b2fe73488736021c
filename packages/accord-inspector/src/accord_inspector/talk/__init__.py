"""The conversation: transcripts of recorded messages, and the client of a live agent."""

from __future__ import annotations

__all__ = ()
