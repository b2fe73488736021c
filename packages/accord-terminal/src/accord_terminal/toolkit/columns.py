"""Tables at the terminal as lines of text: numbers are always whole, names are shortened."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

_LEAST_NAME = 8
_GAP = "  "
_WHOLE = 10_000


def terminal_width() -> int:
    """Return the columns of the terminal; with a pipe, enough for whole lines."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return _WHOLE


def table_lines(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    names: Sequence[int] = (0,),
    left: Sequence[int] = (),
    paths: Sequence[int] = (),
) -> Iterator[str]:
    """Yield a table; the columns `names` are on the left and lose what `width` has no room for.

    The columns `left` are on the left, too, and stay whole. Names that are `paths` keep their ends.
    The texts must be single lines without characters that hide text.
    """
    table = [head, *rows]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(head))]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _LEAST_NAME:
            break
        widths[longest] -= 1
        excess -= 1
    for row in table:
        cells = (
            _cell(text, widths[at], is_left=at in names or at in left, is_path=at in paths)
            for at, text in enumerate(row)
        )
        yield _GAP.join(cells).rstrip()


def _cell(text: str, width: int, *, is_left: bool, is_path: bool) -> str:
    size = cell_len(text)
    if size > width and is_path:
        end = text
        while cell_len(end) >= width:
            end = end[1:]
        return set_cell_size(f"…{end}", width)
    if size > width:
        return set_cell_size(set_cell_size(text, width - 1) + "…", width)
    space = " " * (width - size)
    return text + space if is_left else space + text
