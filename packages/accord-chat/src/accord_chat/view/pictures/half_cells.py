"""Pixels as text: each cell shows two of them, one above the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from accord_chat.view.pictures.decode import Pixels

UPPER_HALF = "▀"


def half_cells(pixels: Pixels, extra: Style | None = None) -> Iterator[Strip]:
    """Yield the lines of an image; `extra` is added to the style of each cell."""
    row_bytes = 3 * pixels.width
    for top in range(0, pixels.height, 2):
        upper = pixels.rgb[top * row_bytes : (top + 1) * row_bytes]
        lower = pixels.rgb[(top + 1) * row_bytes : (top + 2) * row_bytes]
        cells = ((upper[at : at + 3], lower[at : at + 3]) for at in range(0, row_bytes, 3))
        parts: list[Segment] = []
        for (above, below), same in groupby(cells):
            style = Style(
                color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below) if below else None
            )
            parts.append(Segment(UPPER_HALF * sum(1 for _ in same), style + extra))
        yield Strip(parts, pixels.width)
