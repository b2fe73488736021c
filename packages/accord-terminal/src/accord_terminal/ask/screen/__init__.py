"""The screen of `accord ask` for people: Markdown, tool calls, diffs, the plan, a spinner."""

from __future__ import annotations

__all__ = ()
