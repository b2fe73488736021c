"""`accord chat`: the client that stays open, with its sessions, drafts and questions."""

from __future__ import annotations

__all__ = ()
