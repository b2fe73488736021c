"""Rows and Markdown as strips, the lines that Textual draws."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from accord.cli.ask.safe_text import printable
from accord.cli.ask.screen.folding import fold_row, fold_words
from accord.cli.ask.screen.markdown import MAX_COLUMNS, finished_length, markdown_segments
from accord.cli.ask.screen.rows import Row

__all__ = ("GrowingText", "ansi_strip", "blank", "indent", "row_strips")

MAX_LIVE = 4000  # characters of an unfinished block that are rendered as Markdown
MAX_BLOCK = 64_000  # characters of a block that may become Markdown at all

# Rich writes code on black, which dark letters do not have in a light theme.
_console = Console(
    width=200,
    color_system="truecolor",
    force_terminal=True,
    markup=False,
    emoji=False,
    theme=Theme({"markdown.code": "bold cyan"}),
)
_plain = Style()


def blank() -> Strip:
    """Return an empty line."""
    return Strip([])


def row_strips(rows: Iterable[Row], width: int) -> list[Strip]:
    """Return rows as lines of at most this width."""
    return [Strip(_segments(text)) for row in rows for text in fold_row(row, max(width, 1))]


def ansi_strip(line: str) -> Strip:
    """Return a line with the styles of a terminal; other control characters must be removed."""
    return Strip(_segments(Text.from_ansi(line, no_wrap=True, end="")))


def indent(strips: Iterable[Strip], lead: str, style: str = "") -> list[Strip]:
    """Return lines with a text before each."""
    first = Segment(lead, Style.parse(style) if style else None)
    return [Strip([first, *strip]) for strip in strips]


def _segments(text: RenderableType) -> list[Segment]:
    return [part for part in _console.render(text) if part.text != "\n"]


def _render(renderable: RenderableType, width: int) -> list[list[Segment]]:
    options = _console.options.update(width=width, height=None)
    return _console.render_lines(renderable, options, pad=False)


def _markdown(text: str, width: int) -> list[Strip]:
    lines = markdown_segments(_render, text, width)
    if lines is None:
        return _folded(text, width)
    strips = [_without_trailing_space(line) for line in lines]
    full = [number for number, strip in enumerate(strips) if strip.text.strip()]
    return strips[full[0] : full[-1] + 1] if full else []


def _without_trailing_space(line: list[Segment]) -> Strip:
    parts = [part for part in line if not part.control]
    while parts and not parts[-1].text.strip(" \n") and not _has_background(parts[-1]):
        parts.pop()
    return Strip(parts)


def _has_background(part: Segment) -> bool:
    return part.style is not None and part.style.bgcolor is not None


def _folded(text: str, width: int) -> list[Strip]:
    width = max(min(width, MAX_COLUMNS), 1)
    return [
        Strip([Segment(part)])
        for line in text.rstrip("\n").split("\n")
        for part in fold_words(line.expandtabs(4), width)
    ]


class GrowingText:
    """The lines of a Markdown text that grows: each finished block is rendered once.

    A block that is too long for that is folded as it was written.
    """

    def __init__(self, width: int, lead: str = "") -> None:
        self.width = width
        self._lead = lead  # before each line
        self._taken = 0  # characters of the source
        self._tail = ""  # the last block, which may still change
        self._tried = 0  # the length of the tail when it was last searched for finished blocks
        self._finished: list[Strip] = []

    def lines(self, text: str, *, is_final: bool) -> list[Strip]:
        """Return the lines of the text, which begins as before."""
        if len(text) < self._taken:  # the agent has replaced it
            self.__init__(self.width, self._lead)
        new = text[self._taken :]
        self._taken = len(text)
        self._tail += printable(new)
        if len(self._tail) >= self._tried + max(1, self._tried // 2) or is_final:
            self._finish_blocks()
        if len(self._tail) > MAX_BLOCK:
            end = self._tail.rfind("\n", 0, -1) + 1 or len(self._tail)
            self._append(_folded(self._tail[:end], self.width), apart=False)
            self._tail, self._tried = self._tail[end:], 0
        if not self._tail.strip():
            return list(self._finished)
        if len(self._tail) <= MAX_LIVE or is_final:
            tail = _markdown(self._tail, self.width)
        else:
            tail = _folded(self._tail, self.width)
        tail = indent(tail, self._lead)
        apart = [blank()] if self._finished and tail else []
        return [*self._finished, *apart, *tail]

    def _finish_blocks(self) -> None:
        if len(self._tail) > MAX_BLOCK:
            return
        end = finished_length(self._tail)
        self._tried = 0 if len(self._tail) < MAX_LIVE else len(self._tail)
        if end:
            self._append(_markdown(self._tail[:end], self.width), apart=True)
            self._tail, self._tried = self._tail[end:], 0

    def _append(self, strips: list[Strip], *, apart: bool) -> None:
        if apart and self._finished and strips:
            self._finished.append(blank())
        self._finished += indent(strips, self._lead)
