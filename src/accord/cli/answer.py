"""The answer in a pipe or a file: the agent's text as it came, a paragraph for each message."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ("PipedAnswer",)


class PipedAnswer:
    """Writes the text to stdout; what else is shown goes to `side`, which may be the same file."""

    def __init__(self, out: TextIO, side: TextIO) -> None:
        self._out = out
        self._is_one = _is_one_file(out, side)
        self._written = False
        self._hangs = False  # the last line has no end yet, in the file where all else goes as well
        self._broken_off = False  # the next text begins a paragraph

    def break_off(self) -> None:
        """Let the next text begin a paragraph."""
        self._broken_off = self._written

    def say(self, text: str) -> None:
        """Write more of the answer."""
        if self._broken_off:
            text = ("\n" if self._is_one and not self._hangs else "\n\n") + text
        self._broken_off = False
        self._write(text)

    def make_room(self) -> None:
        """End the line, if something else is about to be written into the same file."""
        if self._hangs:
            self._write("\n")

    def end(self) -> None:
        """End the last line."""
        if self._hangs or (self._written and not self._is_one):
            self._write("\n")
        self._written = self._hangs = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._written = True
        self._hangs = self._is_one and not text.endswith("\n")


def _is_one_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to one file, as in `> log 2>&1`."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # one of them has no file
        return False
