"""Folds text to the width of a terminal, counting the cells that each character takes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from accord.cli.ask.screen.rows import Row

__all__ = ("fold", "fold_row", "fold_words")

TAB = 4


def fold_row(row: Row, width: int) -> Iterator[Text]:
    """Yield lines of at most this width, each with the gutter."""
    lead = row.lead
    rest = " " * cell_len(lead) if row.rest is None else row.rest
    room = width - cell_len(lead)
    if room < 4:  # too narrow for a gutter
        lead, rest, room = "", "", max(width, 1)
    cut = fold_words if row.whole_words else fold
    for number, part in enumerate(cut(row.text.expandtabs(TAB), room)):
        gutter = rest if number else lead
        yield Text.assemble((gutter, row.lead_style), (part, row.style), no_wrap=True)


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
