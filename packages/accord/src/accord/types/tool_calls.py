"""Values of tool calls: kinds and rules for them, statuses, diffs, terminals and locations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from accord.text.excerpt import nearest
from accord.types.content import ContentBlock
from accord.types.validation import ValidatedStruct

# The peer can define further values. Display them as `other` and as in progress.
ToolKind: TypeAlias = (
    Literal[
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ]
    | str
)
TOOL_KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)
ToolStatus: TypeAlias = (
    Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"] | str
)


class Diff(ValidatedStruct, frozen=True, tag="diff"):
    """A change of a file (`v1.Diff`, `v2.Diff`).

    `old` is None for a new file, `new` is None for a deleted one. `patch` is the change as a git
    patch if the agent sent only that. `others` are further files that it changes, and the former
    paths of moved or copied files.
    """

    path: str
    old: str | None = None
    new: str | None = None
    patch: str | None = None
    others: tuple[str, ...] = ()


class TerminalView(ValidatedStruct, frozen=True, tag="terminal"):
    """A terminal displayed in a tool call (`v1.Terminal`, `v2.Terminal`)."""

    terminal_id: str


class ToolCallLocation(ValidatedStruct, frozen=True):
    """A file location (`v1.ToolCallLocation`, `v2.ToolCallLocation`); the first line is 1."""

    path: str
    line: int | None = None


ToolContent: TypeAlias = ContentBlock | Diff | TerminalView


def rule_error(rules: Iterable[str]) -> str | None:
    """Return what is wrong with the first invalid rule, or None.

    A rule of a permission policy is `*`, a kind, or a kind with a pattern.
    """
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
