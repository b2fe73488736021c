"""Writes lines. What begins at the left edge is from this program; text of agents is indented."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accord.text.excerpt import visible
from accord_terminal.toolkit.terminal_output import fold_words
from accord_terminal.toolkit.text import one_line

INDENT = "  "
TAB = 4
MIN_WIDTH = 20  # a narrower terminal breaks the lines itself
MAX_LINE = 4000  # characters of a line that may contain text of an agent


class Printer:
    """Prints whole lines; `width` is None if nothing is to be folded."""

    def __init__(self, write: Callable[[str], None], width: Callable[[], int | None]) -> None:
        self.write = write
        self.width = width
        self._held: list[str] | None = None

    def say(self, text: str) -> None:
        """Print a line at the left edge; everything in it becomes part of the one line."""
        first, *rest = self._folded(one_line(text, MAX_LINE))
        self._put([first, *(f"{INDENT}{line}" for line in rest)])

    def below(self, texts: Iterable[str]) -> None:
        """Print lines with an indentation; control characters are made visible."""
        lines = [line for text in texts for line in visible(text).split("\n")]
        folded = (part for line in lines for part in self._folded(line.expandtabs(TAB).rstrip()))
        self._put([f"{INDENT}{part}".rstrip() for part in folded])

    def hold(self) -> None:
        """Keep the lines, since another program has the terminal."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Print what was kept."""
        held, self._held = self._held, None
        if held:
            self._put(held)

    def _folded(self, line: str) -> list[str]:
        width = self.width()
        if width is None or width < MIN_WIDTH:
            return [line]
        # The terminal must not break a line: the rest would begin at the left edge.
        kept = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        return [kept + part for part in fold_words(line.lstrip(" "), width - 3 - len(kept))]

    def _put(self, lines: list[str]) -> None:
        if self._held is not None:
            self._held += lines
        elif lines:
            self.write("\n".join(lines) + "\n")
