"""Lines of text with a gutter: in a pipe a line each, at a terminal folded beside the gutter."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

__all__ = ("Row", "fold", "fold_words")

TAB = 4


class Row(Struct, frozen=True):
    """A line; `lead` stands before its beginning, `rest` before what did not fit into it."""

    text: str
    style: str = ""
    lead: str = ""
    rest: str | None = None  # as wide as `lead`; None is so many spaces
    lead_style: str = ""
    whole_words: bool = True

    @property
    def plain(self) -> str:
        """The row as one line."""
        return f"{self.lead}{self.text}"

    def fold_lines(self, width: int) -> Iterator[Text]:
        """Yield lines of this width at most, the gutter in each."""
        lead = self.lead
        rest = " " * cell_len(lead) if self.rest is None else self.rest
        room = width - cell_len(lead)
        if room < 4:  # no gutter fits
            lead, rest, room = "", "", max(width, 1)
        cut = fold_words if self.whole_words else fold
        for number, part in enumerate(cut(self.text.expandtabs(TAB), room)):
            gutter = rest if number else lead
            yield Text.assemble((gutter, self.lead_style), (part, self.style), no_wrap=True)


def fold(text: str, width: int) -> list[str]:
    """Return a line cut into pieces of this width at most; nothing is left out."""
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
    """Return a line cut at spaces where it has them; the spaces at the cuts are dropped."""
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
