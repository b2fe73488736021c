"""How texts are shown: to the user on a tool call, and to models within bounds."""

from __future__ import annotations

import json
import re

from accord.text.excerpt import visible

__all__ = (
    "MAX_CHARACTERS",
    "count_noun",
    "cut_middle",
    "display_path",
    "escape_lines",
    "fenced",
    "one_line",
)

MAX_CHARACTERS = 100_000  # of one result, for models
_MAX_SHOWN_CHARACTERS = 20_000  # on the screen of the user
_FENCES = re.compile(r"`{3,}")


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of Markdown that shows it as it is, not all of a long one."""
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = f"{text[:_MAX_SHOWN_CHARACTERS]}\n[…]"
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def cut_middle(text: str, max_characters: int) -> str:
    """Leave out the middle of a long text; its end says more than its beginning."""
    if len(text) <= max_characters:
        return text
    first = max_characters // 3
    last = max_characters - first
    out = len(text) - max_characters
    return f"{text[:first]}\n[… {out} characters left out …]\n{text[-last:]}"


def one_line(text: str, max_characters: int = 120) -> str:
    """Return the text as a title: its words in a line, cut where it is long."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"


def escape_lines(text: str) -> str:
    """Return all lines of a text that somebody is to agree to, with what misleads escaped."""
    return "\n".join(visible(line) for line in text.expandtabs().split("\n"))


def display_path(path: str) -> str:
    """Return a path as it is shown: between quotes, with escapes, if it would mislead."""
    misleads = visible(path) != path or "\t" in path or "\n" in path
    return json.dumps(path) if misleads else path


def count_noun(count: int, one: str, many: str) -> str:
    """Return a count with its noun: 1 file, 2 files."""
    return f"{count} {one if count == 1 else many}"
