"""Scrolling views of text: lines that can be selected, rows, and a screen that shows a whole text.

A selection is made with the mouse and copied with Ctrl+C. The place of a character is the key of
its line and its number in the line. Keys grow downwards, and a line keeps its key while others are
added, so a selection stays on its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from accord_chat.view.lazy_lines import FoldedRows
from accord_terminal.toolkit.text import Row

SCROLL_KEYS: tuple[Binding, ...] = (
    Binding("up,k", "scroll_up", show=False),
    Binding("down,j", "scroll_down", show=False),
    Binding("pageup", "page_up", show=False),
    Binding("pagedown,space", "page_down", show=False),
    Binding("home,g", "scroll_home", show=False),
    Binding("end,G", "scroll_end", show=False),
)
MAX_COPIED_LINES = 100_000
MAX_DRAWN = 500  # lines that are kept
_WORD = re.compile(r"[\w./~:@%+=#?&-]+")


class SelectableView(ScrollView):
    """Draws the lines that `line` returns, with the selected ones marked."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  # as in Textual
        super().__init__(id=id)
        self._drawn: dict[int, tuple[Strip, Strip]] = {}  # by key: a line, and how it was drawn
        self._drawn_for: tuple[Style, Selection | None, int] | None = None

    def line(self, number: int) -> tuple[int, Strip]:
        """Return the key of a line, counted from the beginning, and the line itself."""
        raise NotImplementedError

    def lines_between(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Yield the keys and texts of the lines from one key to another."""
        raise NotImplementedError

    def margin(self, text: str) -> int:
        """Return how many characters of a line belong to the layout: they are not copied."""
        return 0

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return lines of the window; most of them have only moved since they were drawn."""
        if not self.is_attached:  # it was removed after the frame began
            return [Strip.blank(crop.width)] * crop.height
        drawn_for = (self.rich_style, self.text_selection, self.size.width)
        if drawn_for != self._drawn_for or len(self._drawn) > MAX_DRAWN:
            self._drawn, self._drawn_for = {}, drawn_for
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return a line of the window."""
        key, strip = self.line(self.scroll_offset.y + y)
        known = self._drawn.get(key)
        if known is not None and known[0] is strip:
            return known[1]
        base, selection, width = self._drawn_for or (
            self.rich_style,
            self.text_selection,
            self.size.width,
        )
        drawn = self._drawn_line(key, strip, selection)
        drawn = drawn.adjust_cell_length(width, base).apply_style(base)
        self._drawn[key] = strip, drawn
        return drawn

    def _drawn_line(self, key: int, strip: Strip, selection: Selection | None) -> Strip:
        if strip.cell_length:
            strip = strip.apply_offsets(0, key)
        else:  # a selection can begin here
            strip = Strip([Segment(" ", Style.from_meta({"offset": (0, key)}))])
        span = None if selection is None else selection.get_span(key)
        if span is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = _marked(strip, *span, Style(bgcolor=style.bgcolor))
        return strip

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text; an open end is the edge of the window."""
        top = self.scroll_offset.y
        start = selection.start or Offset(0, self.line(top)[0])
        end = selection.end or Offset(-1, self.line(top + self.size.height - 1)[0])
        span = Selection(start, None if end.x < 0 else end)
        copied: list[str] = []
        for key, text in self.lines_between(start.y, end.y):
            first, last = span.get_span(key) or (0, -1)
            first = max(first, self.margin(text))
            copied.append(text[first : None if last < 0 else max(last, first)].rstrip())
            if len(copied) == MAX_COPIED_LINES:
                break
        return "\n".join(copied), "\n"

    def on_click(self, event: events.Click) -> None:
        """Select a word with two clicks, and nothing more with further ones."""
        if event.chain == 1:
            return
        event.prevent_default()  # Textual would select everything
        key, strip = self.line(self.scroll_offset.y + event.y)
        at = len(strip.crop(0, event.x + 1).text) - 1
        for word in _WORD.finditer(strip.text):
            if word.start() <= at < word.end():
                ends = Offset(word.start(), key), Offset(word.end(), key)
                self.screen.selections = {self: Selection(*ends)}


def _marked(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """Return a line whose characters from `start` to `end` have a style; -1 is its end."""
    parts: list[Segment] = []
    at = 0
    for part in strip:
        size = len(part.text)
        first = min(max(start - at, 0), size)
        last = size if end < 0 else min(max(end - at, first), size)
        for text, is_marked in (
            (part.text[:first], False),
            (part.text[first:last], True),
            (part.text[last:], False),
        ):
            if text:
                parts.append(
                    Segment(text, (part.style or Style.null()) + style if is_marked else part.style)
                )
        at += size
    return Strip(parts)


MAX_ROWS = 20_000


class RowsView(SelectableView, can_focus=True):
    """Shows rows, folded to its width when they are shown; at most the first `MAX_ROWS`."""

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


class ViewerScreen(ModalScreen[None]):
    """Shows a whole text, such as help or the output of a tool, until Escape or q."""

    DEFAULT_CSS = """
    ViewerScreen { align: center middle; }
    ViewerScreen > Vertical {
        width: 100%; height: 100%; border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    ViewerScreen RowsView { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", show=False)]

    def __init__(self, title: str, rows: Iterable[Row]) -> None:
        super().__init__()
        self._title = title
        self._rows = rows

    def compose(self) -> ComposeResult:
        """Make the box."""
        with Vertical() as box:
            box.border_title = Content(self._title)
            box.border_subtitle = "↑ ↓ PgUp PgDn scroll · Esc leaves"
            yield RowsView(self._rows)

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)
