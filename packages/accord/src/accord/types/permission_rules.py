"""Checks the rules of permission policies: `*`, a kind, or a kind with a pattern."""

from __future__ import annotations

from collections.abc import Iterable

from accord.text.nearest import nearest
from accord.types.tool_calls import TOOL_KINDS

__all__ = ("rule_error",)


def rule_error(rules: Iterable[str]) -> str | None:
    """Return what is wrong with the first invalid rule, or None."""
    for rule in rules:
        kind = rule.partition(":")[0]
        if kind in ("*", *TOOL_KINDS) or kind.startswith("_"):
            continue
        near = nearest(kind, TOOL_KINDS)
        meant = "" if near is None else f" (did you mean {near!r}?)"
        return (
            f"Expected a kind of tool call, got {kind!r} in {rule!r}{meant}: it is one of "
            f"{', '.join(TOOL_KINDS)}, or * for all"
        )
    return None
