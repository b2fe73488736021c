"""What a chat consists of, without a screen: sessions, prompts, entries, files."""

from __future__ import annotations

__all__ = ()
