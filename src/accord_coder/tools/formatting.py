"""How texts are shown: to the user on a tool call, and to models within bounds."""

from __future__ import annotations

import json
import re

from accord.text.excerpt import visible

__all__ = (
    "MOST_CHARACTERS",
    "cut_middle",
    "fenced",
    "in_full",
    "named",
    "one_line",
    "places_in",
)

MOST_CHARACTERS = 100_000  # of one result, for models
_SHOWN_CHARACTERS = 20_000  # on the screen of the user
_FENCES = re.compile(r"`{3,}")


def fenced(text: str, language: str = "") -> str:
    """Return text as a block of Markdown that shows it as it is, not all of a long one."""
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}\n[…]"
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def cut_middle(text: str, most: int) -> str:
    """Leave out the middle of a long text; its end says more than its beginning."""
    if len(text) <= most:
        return text
    first = most // 3
    last = most - first
    out = len(text) - most
    return f"{text[:first]}\n[… {out} characters left out …]\n{text[-last:]}"


def one_line(text: str, most: int = 120) -> str:
    """Return the text as a title: its words in a line, cut where it is long."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def in_full(text: str) -> str:
    """Return all lines of a text that somebody is to agree to, with what misleads escaped."""
    return "\n".join(visible(line) for line in text.expandtabs().split("\n"))


def named(path: str) -> str:
    """Return a path as it is shown: between quotes, with escapes, if it would mislead."""
    misleads = visible(path) != path or "\t" in path or "\n" in path
    return json.dumps(path) if misleads else path


def places_in(count: int, one: str, many: str) -> str:
    """Return a count with its noun: 1 file, 2 files."""
    return f"{count} {one if count == 1 else many}"
