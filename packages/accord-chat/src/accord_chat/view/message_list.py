"""The messages of the protocol, one line for each, of which only the visible ones are made."""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.scroll_view import ScrollView
from textual.strip import Strip

from accord_chat.model.traffic import Message, Traffic, matches
from accord_chat.view.strips import ansi_strip
from accord_terminal.trace.show import short_line
from accord_trace.selection import Filter

MAX_CACHED = 400
DETAILS = 110  # columns from which on sizes and sessions are shown
_CURSOR = Style(reverse=True)


class MessageList(ScrollView, can_focus=True):
    """Shows the messages that are selected; follows the end until the user moves up."""

    DEFAULT_CSS = """
    MessageList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(TextualMessage):
        """The user wants to see a whole message."""

        def __init__(self, message: Message) -> None:
            super().__init__()
            self.message = message

    def __init__(self, traffic: Traffic, connections: set[str]) -> None:
        super().__init__()
        self.is_following = True
        self._traffic = traffic
        self._connections = connections
        self._filter = Filter()
        self._numbers: list[int] = []  # of the messages that are selected
        self._looked_at = 0  # up to which message
        self._cursor = 0
        self._cache: dict[tuple[int, int], Strip] = {}

    @property
    def shown(self) -> int:
        """How many messages are selected."""
        return len(self._numbers)

    def select(self, wanted: Filter) -> None:
        """Show only these messages."""
        self._filter = wanted
        self._numbers, self._looked_at = [], 0
        self.is_following = True
        self.look()

    def look(self) -> None:
        """Take over what was sent and received since; forget what is not kept any more."""
        first, total = self._traffic.first, self._traffic.total
        dropped = bisect_left(self._numbers, first)
        if self._looked_at == total and not dropped:
            return
        del self._numbers[:dropped]
        for message in self._traffic.since(self._looked_at):
            row = message.row(message.record())
            if row.conn in self._connections and matches(message, row, self._filter):
                self._numbers.append(message.number)
        self._looked_at = total
        self.virtual_size = Size(self.size.width, len(self._numbers))
        if self.is_following:
            self._cursor = max(0, len(self._numbers) - 1)
            self.set_scroll(None, float(max(0, len(self._numbers) - self.size.height)))
        elif dropped:
            self._cursor = max(0, self._cursor - dropped)
            self.set_scroll(None, float(max(0, self.scroll_offset.y - dropped)))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the window."""
        base, width = self.rich_style, self.scrollable_content_region.width
        at = self.scroll_offset.y + y
        if at >= len(self._numbers):
            return Strip.blank(width, base)
        strip = self._strip(self._numbers[at], width).adjust_cell_length(width, base)
        if at == self._cursor and self.has_focus:
            return strip.apply_style(base + _CURSOR)
        return strip.apply_style(base)

    def _strip(self, number: int, width: int) -> Strip:
        known = self._cache.get((number, width))
        message = self._traffic.get(number)
        if known is not None or message is None:
            return known or Strip([])
        record = message.record()
        line = short_line(message.row(record), record, width, with_details=width >= DETAILS)
        strip = self._cache[number, width] = ansi_strip(line)
        if len(self._cache) > MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        return strip

    def on_resize(self) -> None:
        """Stay at the end."""
        self.virtual_size = Size(self.size.width, len(self._numbers))
        if self.is_following:
            self.set_scroll(None, float(max(0, len(self._numbers) - self.size.height)))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end if it is shown."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value:
            self.is_following = False
        elif new_value >= self.max_scroll_y and self._cursor >= len(self._numbers) - 1:
            self.is_following = True

    def on_click(self, event: events.Click) -> None:
        """Mark the line under the mouse; with two clicks, open it."""
        self._go(self.scroll_offset.y + event.y)
        if event.chain == 2:
            self.action_open()

    def on_focus(self) -> None:
        """Show the mark."""
        self.refresh()

    def on_blur(self) -> None:
        """Remove the mark."""
        self.refresh()

    def action_move(self, step: int) -> None:
        """Mark another line."""
        self._go(self._cursor + step)

    def action_page(self, pages: int) -> None:
        """Mark a line of another page."""
        self._go(self._cursor + pages * max(self.size.height - 1, 1))

    def action_first(self) -> None:
        """Go to the oldest message."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the end, and follow it."""
        self._go(len(self._numbers) - 1)

    def action_open(self) -> None:
        """Show the marked message whole."""
        if self._cursor < len(self._numbers):
            message = self._traffic.get(self._numbers[self._cursor])
            if message is not None:
                self.post_message(self.Opened(message))

    def _go(self, at: int) -> None:
        last = len(self._numbers) - 1
        self._cursor = min(max(at, 0), max(last, 0))
        self.is_following = self._cursor == last
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if self._cursor < top:
            self.set_scroll(None, float(self._cursor))
        elif self._cursor >= top + height:
            self.set_scroll(None, float(self._cursor - height + 1))
        self.refresh()
