"""Writes rows to a stream; `PlainWriter` is for pipes and files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO

from accord_terminal.toolkit.rows import Row

TAB = 8


class Writer(Protocol):
    """A stream and the form in which rows are written to it."""

    stream: TextIO
    is_terminal: bool

    @property
    def has_live_region(self) -> bool:
        """Whether lines below the written ones can be redrawn."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        ...

    @property
    def width(self) -> int:
        """The usable columns."""
        ...

    def render_rows(self, rows: Iterable[Row]) -> list[str]:
        """Return the lines of rows, as the stream shows them."""
        ...

    def fold_text(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, cut to a width."""
        ...

    def cut_line(self, text: str) -> str:
        """Return the beginning of a line that fits into the usable columns."""
        ...

    def write_lines(self, lines: Sequence[str], live_lines: Sequence[str] = ()) -> None:
        """Write lines; replace the live region."""
        ...

    def write(self, text: str) -> None:
        """Write a text unchanged."""
        ...


class PlainWriter:
    """Writes each row as one line, without styles and without a live region."""

    is_terminal = False
    has_live_region = False

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, from the environment if it names them."""
        columns, lines = shutil.get_terminal_size()
        return columns, lines

    @property
    def width(self) -> int:
        """The usable columns."""
        return max(self.size[0] - 1, 1)

    def render_rows(self, rows: Iterable[Row]) -> list[str]:
        """Return one line for each row."""
        return [row.plain.expandtabs(TAB).rstrip(" \n") for row in rows]

    def fold_text(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, uncut."""
        return text.rstrip("\n").split("\n")

    def cut_line(self, text: str) -> str:
        """Return the whole line."""
        return text

    def write_lines(self, lines: Sequence[str], live_lines: Sequence[str] = ()) -> None:
        """Write lines."""
        if lines:
            self.write("".join(f"{line}\n" for line in lines))

    def write(self, text: str) -> None:
        """Write a text unchanged."""
        if text:
            self.stream.write(text)
        self.stream.flush()
