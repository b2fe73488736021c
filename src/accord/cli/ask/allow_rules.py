"""Checks the rules of `--allow` and `--deny`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from accord.types.tool_calls import ToolKind

__all__ = ("rule_error",)


def rule_error(rules: Sequence[str]) -> str | None:
    """Return what is wrong with the first invalid rule, or None."""
    known, _ = get_args(ToolKind)
    for rule in rules:
        kind = rule.partition(":")[0]
        if kind not in ("*", *get_args(known)) and not kind.startswith("_"):
            return (
                f"Expected a kind of tool call, got {kind!r} in {rule!r}: it is one of "
                f"{', '.join(get_args(known))}, or * for all"
            )
    return None
