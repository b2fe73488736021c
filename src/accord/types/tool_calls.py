"""What tool calls show: kinds, statuses, diffs, terminals, places."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.types.content import ContentBlock
from accord.types.validation import ValidatedStruct

__all__ = (
    "TOOL_KINDS",
    "Diff",
    "TerminalView",
    "ToolCallLocation",
    "ToolContent",
    "ToolKind",
    "ToolStatus",
)

# Other strings are a peer's own; show them as `other` and as in progress.
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
    """A change of one file: what it was (None: it was not there) and is (None: it is gone).

    `patch` is the change as a git patch where that is all that came. `others` are the further files
    that it changes, and the former paths of those that it moves or copies.
    """

    path: str
    old: str | None = None
    new: str | None = None
    patch: str | None = None
    others: tuple[str, ...] = ()


class TerminalView(ValidatedStruct, frozen=True, tag="terminal"):
    """A terminal shown in a tool call."""

    terminal_id: str


class ToolCallLocation(ValidatedStruct, frozen=True):
    """A place in a file that a tool works at; the first line is 1."""

    path: str
    line: int | None = None


ToolContent: TypeAlias = ContentBlock | Diff | TerminalView
