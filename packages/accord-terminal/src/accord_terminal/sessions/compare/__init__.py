"""`accord compare`: the same prompt for several agents, each in a git worktree of its own."""

from __future__ import annotations

__all__ = ()
