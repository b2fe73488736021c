"""What a tool call accesses, and its result."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from accord import AccordError, ContentBlock

__all__ = ("Access", "AccessKind", "Outcome", "ToolFailed")

AccessKind = Literal["read", "edit", "delete", "execute", "fetch", "mcp", "none"]


class ToolFailed(AccordError):
    """A tool failed; the text is for the model and the user."""


class Access(Struct, frozen=True):
    """What a tool call accesses: absolute `paths`, or as `subject` a command, a URL or a tool.

    `itself`: a link means the link and not its target, a directory means all that it contains.
    """

    kind: AccessKind
    paths: tuple[str, ...] = ()
    subject: str = ""
    itself: bool = False


class Outcome(Struct, frozen=True):
    """The result of a tool: content for the model, and JSON for clients that show raw output.

    The tool shows its progress to the user on the call. `failed` marks a failure that the content
    describes, such as the exit status of a command.
    """

    content: tuple[ContentBlock, ...]
    raw: dict[str, Any] | None = None
    failed: bool = False
