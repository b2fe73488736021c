"""Rows and Markdown as strips, the lines that Textual draws."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from accord_terminal.toolkit.markdown import MAX_COLUMNS, markdown_segments
from accord_terminal.toolkit.terminal_output import fold_row, fold_words
from accord_terminal.toolkit.text import Row

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


def text_strips(texts: Iterable[Text]) -> list[Strip]:
    """Return texts as lines, which are not folded."""
    return [Strip(_segments(text)) for text in texts]


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


def markdown(text: str, width: int) -> list[Strip]:
    """Return a Markdown text as lines; if rendering would lose text, its source."""
    lines = markdown_segments(_render, text, width)
    if lines is None:
        return folded(text, width)
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


def folded(text: str, width: int) -> list[Strip]:
    """Return a text as it was written, folded."""
    width = max(min(width, MAX_COLUMNS), 1)
    return [
        Strip([Segment(part)])
        for line in text.rstrip("\n").split("\n")
        for part in fold_words(line.expandtabs(4), width)
    ]
