"""What a tool call accesses, its result, and texts of results within limits."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from msgspec import Struct

from accord import AccordError, ContentBlock
from accord.text.excerpt import visible

AccessKind = Literal["read", "edit", "delete", "execute", "fetch", "mcp", "none"]
MAX_CHARACTERS = 100_000  # of one result, for models
_MAX_SHOWN_CHARACTERS = 20_000  # shown to the user
_FENCES = re.compile(r"`{3,}")


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


def fenced(text: str, language: str = "") -> str:
    """Return text as a code block of Markdown; a long text is cut."""
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = f"{text[:_MAX_SHOWN_CHARACTERS]}\n[…]"
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def cut_middle(text: str, max_characters: int) -> str:
    """Leave out the middle of a long text; more of its end than of its beginning is kept."""
    if len(text) <= max_characters:
        return text
    first = max_characters // 3
    last = max_characters - first
    out = len(text) - max_characters
    return f"{text[:first]}\n[… {out} characters left out …]\n{text[-last:]}"


def one_line(text: str, max_characters: int = 120) -> str:
    """Return the text as one line; a long text is cut."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"


def escape_lines(text: str) -> str:
    """Return a text in full for the user's approval, with misleading characters escaped."""
    return "\n".join(visible(line) for line in text.expandtabs().split("\n"))


def display_path(path: str) -> str:
    """Return a path for display: quoted and escaped if it could mislead."""
    misleads = visible(path) != path or "\t" in path or "\n" in path
    return json.dumps(path) if misleads else path


def count_noun(count: int, one: str, many: str) -> str:
    """Return a count with its noun: 1 file, 2 files."""
    return f"{count} {one if count == 1 else many}"
