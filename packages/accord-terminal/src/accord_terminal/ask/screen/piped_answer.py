"""Writes the agent's text to a pipe or a file, unchanged, with a paragraph for each message."""

from __future__ import annotations

import os
from typing import TextIO


class PipedAnswer:
    """Writes the text to `out`; `other`, for all other output, may be the same file."""

    def __init__(self, out: TextIO, other: TextIO) -> None:
        self.stream = out
        self._is_same_file = _same_file(out, other)
        self._written = False
        self._line_is_open = False  # only in a file that other output goes to as well
        self._starts_paragraph = False

    def start_paragraph(self) -> None:
        """Start a paragraph with the next text."""
        self._starts_paragraph = self._written

    def write(self, text: str) -> None:
        """Write text of the answer."""
        if self._starts_paragraph:
            text = ("\n" if self._is_same_file and not self._line_is_open else "\n\n") + text
        self._starts_paragraph = False
        self._write(text)

    def end_line(self) -> None:
        """End an unfinished line, before other output is written to the same file."""
        if self._line_is_open:
            self._write("\n")

    def finish(self) -> None:
        """End the last line."""
        if self._line_is_open or (self._written and not self._is_same_file):
            self._write("\n")
        self._written = self._line_is_open = False

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
        self._written = True
        self._line_is_open = self._is_same_file and not text.endswith("\n")


def _same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to the same file, as in `> log 2>&1`."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # a stream without a file
        return False
