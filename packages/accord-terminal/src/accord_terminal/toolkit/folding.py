"""Folds text to the width of a terminal, counting the cells that each character takes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from accord_terminal.toolkit.rows import Row

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
