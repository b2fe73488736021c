"""The commands of the chat, one feature per file; `accord_chat.view.keys` lists them."""

from __future__ import annotations

__all__ = ()
