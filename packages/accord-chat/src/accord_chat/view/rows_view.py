"""A scrolling view of rows, folded to its width when they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip

from accord_chat.view.lazy_lines import FoldedRows
from accord_chat.view.selectable import SCROLL_KEYS, SelectableView
from accord_terminal.toolkit.text import Row

MAX_ROWS = 20_000


class RowsView(SelectableView, can_focus=True):
    """Shows rows; at most the first `MAX_ROWS`."""

    DEFAULT_CSS = """
    RowsView {
        height: auto; background: transparent; scrollbar-size-vertical: 1; overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]

    def __init__(self, rows: Iterable[Row] = (), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._strips = FoldedRows((), 1)
        self._width = 0
        self.is_cut = False  # there are more rows than can be shown
        self._take(rows)

    def show_rows(self, rows: Iterable[Row]) -> None:
        """Show other rows from the beginning."""
        self._take(rows)
        self._fold(self._width or 80)
        self.scroll_to(y=0, animate=False)
        self.refresh(layout=True)

    def _take(self, rows: Iterable[Row]) -> None:
        taken = list(islice(rows, MAX_ROWS + 1))
        self.is_cut = len(taken) > MAX_ROWS
        self._rows = taken[:MAX_ROWS]
        if self.is_cut:
            self._rows.append(Row("… more is not shown", "yellow"))

    def _fold(self, width: int) -> None:
        self._width = width
        self._strips = FoldedRows(self._rows, width)
        self.virtual_size = Size(width, len(self._strips))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        if width != self._width and width > 0:
            self._fold(width)
        return len(self._strips)

    def on_resize(self, event: events.Resize) -> None:
        """Fold the rows again."""
        width = self.scrollable_content_region.width or event.size.width
        if width != self._width:
            self._fold(width)
            self.refresh(layout=True)

    def line(self, number: int) -> tuple[int, Strip]:
        """Return the key of a line, counted from the beginning, and the line itself."""
        return number, self._strips[number] if number < len(self._strips) else Strip([])

    def lines_between(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Yield the keys and texts of the lines from one key to another."""
        return ((key, strip.text) for key, strip in self._strips.keyed(first, last))
