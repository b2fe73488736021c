"""Writes to a terminal: permanent lines, and below them a live region that is redrawn.

There is one writer and no thread. Each permanent line is written once. The live region has what
still changes; the next write starts at its first line and so replaces it. A terminal that cannot
move its cursor has no live region.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.segment import Segment
from rich.text import Text

from accord_terminal.toolkit.text import Row

# Folds text to the width of a terminal, counting the cells that each character takes.

TAB = 4
MIN_ROOM = 4  # columns after a gutter


def fold_row(row: Row, width: int) -> Iterator[Text]:
    """Yield lines of at most this width, each with the gutter."""
    lead, room = row.lead, _room(row, width)
    rest = " " * cell_len(lead) if row.rest is None else row.rest
    if width - cell_len(lead) < MIN_ROOM:  # too narrow for a gutter
        lead = rest = ""
    for number, part in enumerate(_parts(row, room)):
        gutter = rest if number else lead
        yield Text.assemble((gutter, row.lead_style), (part, row.style), no_wrap=True)


def row_height(row: Row, width: int) -> int:
    """Return how many lines `fold_row` yields, in a fraction of the time."""
    room = _room(row, width)
    text = row.text
    if len(text) <= room and text.isascii() and "\t" not in text:
        return 1
    return len(_parts(row, room))


def _room(row: Row, width: int) -> int:
    """Return the width without the gutter, or all of it if too little would be left."""
    room = width - cell_len(row.lead)
    return room if room >= MIN_ROOM else max(width, 1)


def _parts(row: Row, room: int) -> list[str]:
    cut = fold_words if row.whole_words else fold
    return cut(row.text.expandtabs(TAB), room)


def fold(text: str, width: int) -> list[str]:
    """Cut a line into pieces of at most this width; keep all characters."""
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    pieces: list[str] = []
    piece: list[str] = []
    used = 0
    for character in text:
        size = cell_len(character)
        if used + size > width and piece:
            pieces.append("".join(piece))
            piece, used = [], 0
        piece.append(character)
        used += size
    return [*pieces, "".join(piece)]


def fold_words(text: str, width: int) -> list[str]:
    """Cut a line at spaces where possible; drop the spaces at the cuts."""
    if cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        wider = f"{line} {word}" if line else word
        if cell_len(wider) <= width:
            line = wider
            continue
        if line:
            lines.append(line)
        *full, line = fold(word, width)
        lines += full
    return [*lines, line]


if sys.platform != "win32":
    import termios


_MIN_COLUMNS = 12  # a narrower terminal has no live region
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor
_LINE, _BELOW = "\x1b[2K", "\x1b[J"  # erase


class TerminalWriter:
    """A stream and the properties of its terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_terminal: bool = stream.isatty()
        self._console = Console(
            file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False
        )
        self._colors = None
        if self._console.color_system is not None:
            self._colors = COLOR_SYSTEMS[self._console.color_system]
        is_capable = os.environ.get("TERM", "") not in ("dumb", "unknown")
        self._can_move_cursor = self.is_terminal and is_capable and not self._console.legacy_windows
        self._live_lines: list[str] = []
        self._echo = _TerminalEcho(stream)

    @property
    def has_live_region(self) -> bool:
        """Whether lines below the written ones can be redrawn."""
        return self._can_move_cursor and self.size[0] >= _MIN_COLUMNS

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        try:
            columns, lines = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            columns = lines = 0
        if not columns or not lines:
            known = shutil.get_terminal_size()  # from the environment, if set
            columns, lines = columns or known.columns, lines or known.lines
        return columns, lines

    @property
    def width(self) -> int:
        """The usable columns: all but the last one, in which terminals differ."""
        return max(self.size[0] - 1, 1)

    def segments(self, renderable: RenderableType, width: int) -> list[list[Segment]]:
        """Return the segments of a rich object."""
        options = self._console.options.update(width=width, height=None)
        return self._console.render_lines(renderable, options, pad=False)

    def render_segments(self, lines: Iterable[Iterable[Segment]]) -> list[str]:
        """Return segments as lines of text and escape codes, without trailing spaces."""
        return [self._render_line(line) for line in lines]

    def fold_text(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, cut to a width."""
        return [part for line in text.rstrip("\n").split("\n") for part in fold_words(line, width)]

    def cut_line(self, text: str) -> str:
        """Return the beginning of a line that fits into the usable columns."""
        return fold(text, self.width)[0]

    def render_rows(self, rows: Iterable[Row]) -> list[str]:
        """Return rows as lines: folded at a terminal, else one line each."""
        if not self.is_terminal:
            texts = [
                Text.assemble((row.lead, row.lead_style), (row.text, row.style)) for row in rows
            ]
            return [self._render_text(text) for text in texts]
        width = self.width
        return [self._render_text(line) for row in rows for line in fold_row(row, width)]

    def _render_text(self, text: Text) -> str:
        text.end = ""
        return self._render_line(
            self._console.render(text, self._console.options.update(width=1 << 20))
        )

    def _render_line(self, line: Iterable[Segment]) -> str:
        parts = list(Segment.simplify(part for part in line if not part.control))
        if self._console.no_color:
            parts = list(Segment.remove_color(parts))
        while parts and not parts[-1].text.rstrip(" \n") and not _has_background(parts[-1]):
            parts.pop()
        if parts and not _has_background(parts[-1]):
            parts[-1] = Segment(parts[-1].text.rstrip(" \n"), parts[-1].style)
        return "".join(
            part.style.render(part.text, color_system=self._colors) if part.style else part.text
            for part in parts
        )

    def write_lines(self, lines: Sequence[str], live_lines: Sequence[str] = ()) -> None:
        """Write permanent lines, and below them the live region instead of the previous one."""
        if not self.has_live_region:
            live_lines = ()
        if not lines and list(live_lines) == self._live_lines:
            return
        parts: list[str] = []
        if self._live_lines:
            up = len(self._live_lines) - 1
            parts.append(f"\r\x1b[{up}A" if up else "\r")
        elif live_lines:
            parts.append(_HIDE)
            self._echo.off()
        before = _LINE if self._live_lines else ""
        parts += [f"{before}{line}\n" for line in lines]
        parts.append("\n".join(f"{before}{line}" for line in live_lines))
        if self._live_lines:
            parts.append(_BELOW)
            if not live_lines:
                parts.append(_SHOW)
                self._echo.on()
        self._live_lines = list(live_lines)
        self.write("".join(parts))

    def write(self, text: str) -> None:
        """Write a text unchanged."""
        if text:
            self.stream.write(text)
        self.stream.flush()


def _has_background(segment: Segment) -> bool:
    return segment.style is not None and (
        segment.style.bgcolor is not None or bool(segment.style.reverse)
    )


class _TerminalEcho:
    """Hides what the user types while no question is open: it would appear in the live region."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._saved_mode: list[int | list[bytes | int]] | None = None

    def off(self) -> None:
        if sys.platform == "win32":
            return
        try:
            fd = self._stream.fileno()
            if os.tcgetpgrp(fd) != os.getpgrp():  # a background process would be stopped
                return
            self._saved_mode = termios.tcgetattr(fd)
            silent = [*self._saved_mode]
            silent[3] = int(silent[3]) & ~termios.ECHO  # type: ignore[arg-type]
            termios.tcsetattr(fd, termios.TCSADRAIN, silent)
        except (OSError, ValueError, termios.error):  # not a terminal
            self._saved_mode = None

    def on(self) -> None:
        if sys.platform == "win32" or self._saved_mode is None:
            return
        before, self._saved_mode = self._saved_mode, None
        try:
            fd = self._stream.fileno()
            if os.tcgetpgrp(fd) == os.getpgrp():
                termios.tcsetattr(fd, termios.TCSADRAIN, before)
        except (OSError, ValueError, termios.error):
            return
