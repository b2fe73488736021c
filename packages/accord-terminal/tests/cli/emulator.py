"""A terminal emulator: the screen, and the lines that have scrolled off it."""

from __future__ import annotations

import io
from typing import Any

import pyte
import pyte.modes

__all__ = ("Emulator", "TerminalFile")


class Emulator:
    """Interprets the output of a program."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen: Any = pyte.HistoryScreen(columns, lines, history=1_000_000, ratio=0.5)
        self._stream: Any = pyte.ByteStream(self.screen)

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    @property
    def lines(self) -> list[str]:
        """All lines, including scrolled ones, without trailing spaces."""
        above = [
            "".join(row[column].data for column in range(self.screen.columns))
            for row in self.screen.history.top
        ]
        return [line.rstrip() for line in (*above, *self.screen.display)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n")

    @property
    def shows_cursor(self) -> bool:
        return not self.screen.cursor.hidden


class TerminalFile(io.StringIO):
    """A stream that claims to be a terminal of a given size."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__()
        self.emulator = Emulator(columns, lines)
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        # A terminal driver puts a carriage return before each line feed.
        self.emulator.feed(text.replace("\n", "\r\n").encode())
        return len(text)
