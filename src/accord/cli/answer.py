"""The answer in a pipe or a file: the agent's text as it came, a paragraph for each message."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ("PipedAnswer",)


class PipedAnswer:
    """Writes the text to stdout; what else is shown goes to `side`, which may be the same file."""

    def __init__(self, out: TextIO, side: TextIO) -> None:
        self._out = out
        self._is_same_file = _same_file(out, side)
        self._written = False
        self._line_is_open = (
            False  # the last line has no end yet, in the file where all else goes as well
        )
        self._starts_paragraph = False  # the next text begins a paragraph

    def start_paragraph(self) -> None:
        """Let the next text begin a paragraph."""
        self._starts_paragraph = self._written

    def write(self, text: str) -> None:
        """Write more of the answer."""
        if self._starts_paragraph:
            text = ("\n" if self._is_same_file and not self._line_is_open else "\n\n") + text
        self._starts_paragraph = False
        self._write(text)

    def end_line(self) -> None:
        """End the line, if something else is about to be written into the same file."""
        if self._line_is_open:
            self._write("\n")

    def finish(self) -> None:
        """End the last line."""
        if self._line_is_open or (self._written and not self._is_same_file):
            self._write("\n")
        self._written = self._line_is_open = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._written = True
        self._line_is_open = self._is_same_file and not text.endswith("\n")


def _same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to one file, as in `> log 2>&1`."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # one of them has no file
        return False
