"""The lines of an output as a person sees them at the end, without what terminals interpret."""

from __future__ import annotations

import re

from accord.text.excerpt import hidden_removed

__all__ = ("output_lines",)

# Escape sequences for colours, titles and so on.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"


def output_lines(text: str) -> list[str]:
    """Return an output as lines without colours and other escape sequences.

    A line that was overwritten, such as a progress bar, is returned in its last state.
    """
    if "\x1b" in text:
        text = re.sub(_ESCAPES, "", text)
    return [
        hidden_removed(line.rstrip("\r").rpartition("\r")[2]).rstrip()
        for line in text.rstrip().split("\n")
    ]
