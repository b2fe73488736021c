"""What a tool call touches, and what it results in."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from accord import AccordError, ContentBlock

__all__ = ("Access", "AccessKind", "Outcome", "ToolFailed")

AccessKind = Literal["read", "edit", "delete", "execute", "fetch", "mcp", "none"]


class ToolFailed(AccordError):
    """A tool could not do what it was asked for; the model and the user are told why."""


class Access(Struct, frozen=True):
    """What a call of a tool touches: absolute `paths`, or a command, an address, a tool's name.

    `itself`: a path that is a link stands for the link, one of a directory for all that is in it.
    """

    kind: AccessKind
    paths: tuple[str, ...] = ()
    subject: str = ""
    itself: bool = False


class Outcome(Struct, frozen=True):
    """What the model is told, and JSON for clients that show raw results.

    What the user sees is shown on the call while the tool works. `failed` is for what went wrong
    with all of it told: a command that did not exit with 0.
    """

    content: tuple[ContentBlock, ...]
    raw: dict[str, Any] | None = None
    failed: bool = False
