"""The full-screen view of a chat, made with Textual."""

from __future__ import annotations

__all__ = ()
