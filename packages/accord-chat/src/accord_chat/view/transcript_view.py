"""The conversation as one scrolling view that renders only what is near.

Each entry has a height: measured if its lines are cached, else estimated. Lines are made when
they come near the window and dropped when they are far away, so memory does not grow with the
length of the conversation beyond the text itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.strip import Strip
from textual.widget import Widget

from accord.client.events import ToolCall
from accord_chat.model.conversation import Entry, Remark, Timeline
from accord_chat.view.entry_lines import EntryLines, estimated_height, is_expandable
from accord_chat.view.lazy_lines import Lines, text_strips
from accord_chat.view.pictures import PICTURE, Previews
from accord_chat.view.text_views import SelectableView
from accord_terminal.toolkit.text import GUTTER

if TYPE_CHECKING:
    from textual.app import App


MAX_CACHED = 200  # entries with lines
MARGIN = 40  # lines above the window that are measured before they scroll into it
STRIDE = 1 << 60  # between the keys of two entries: more than the keys of one
INDENT = 2  # columns before each line


class TranscriptView(SelectableView, can_focus=True):
    """Shows a timeline; follows its end unless the user has scrolled up."""

    DEFAULT_CSS = """
    TranscriptView {
        height: 1fr;
        background: $background;
        color: $foreground;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        overflow-y: scroll;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "select(-1)", "Previous", show=False),
        Binding("down,j", "select(1)", "Next", show=False),
        Binding("enter,space", "fold", "Open or fold", show=False),
        Binding("v", "view", "View all of it", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("o", "edit", "Open in the editor", show=False),
        Binding("home,g", "scroll_home", "Beginning", show=False),
        Binding("end,G", "scroll_end", "End", show=False),
    ]

    class Chosen(TextualMessage):
        """The user wants to do something with an entry."""

        def __init__(self, entry: Entry, action: str, picture: int = 0) -> None:
            super().__init__()
            self.entry = entry
            self.action = action
            self.picture = picture  # the number of the image that was clicked

    class Moved(TextualMessage):
        """Other lines are visible: the user has scrolled, or the window has another size."""

    class Left(TextualMessage):
        """The user wants to type; maybe a text is already typed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.timeline: Timeline | None = None
        self.cwd = ""
        self.is_following = True
        self.selected: int | None = None
        self._heights: list[int] = []
        self._tops: list[int] = [0]  # the line at which each entry begins, and the end
        self._cache: dict[int, EntryLines] = {}
        self._width = 0
        self._is_settling = False
        self._is_leaving = False  # for the prompt, with the letter that was typed
        self._is_held = False  # by the mouse: the text must not move away from it
        self._previews = Previews()
        self._welcome_texts: list[Text] = []
        self._welcome: list[Strip] = []

    # What is shown.

    def on_mount(self) -> None:
        """Show images only if the terminal has the colours."""
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]
        # Textual uses all colours if the terminal is unknown (None).
        has_few = app.console.color_system in ("standard", "windows")
        self._previews.has_colours = not (has_few or app.no_color)

    def on_unmount(self) -> None:
        """Decode no more images."""
        self._previews.close()

    def show(self, timeline: Timeline, cwd: str) -> None:
        """Show another timeline from its end."""
        self.timeline, self.cwd = timeline, cwd
        self.selected = None
        self.is_following = True
        self._reset()
        timeline.take_changed()
        self._settle()
        self.refresh()

    def show_welcome(self, lines: Sequence[Text]) -> None:
        """Show lines below the remarks, while the session has no conversation."""
        if self._welcome_texts != lines:
            self._welcome_texts = list(lines)
            self._welcome = text_strips(lines)
            self.refresh()

    def update_changed(self) -> None:
        """Show what has changed in the timeline since the last call."""
        timeline = self.timeline
        if timeline is None or not self._width:
            return
        timeline.sync()
        changed = timeline.take_changed()
        if not changed:
            return
        for at in range(len(self._heights), len(timeline.entries)):
            self._heights.append(estimated_height(timeline.entries[at], self._width))
            self._tops.append(0)
        first = min(changed)
        for at in changed:
            if at in self._cache:
                self._heights[at] = len(self._lines(at))
            else:
                self._heights[at] = estimated_height(timeline.entries[at], self._width)
        self._fix_tops(first)
        self._settle()
        self.refresh()

    def follow(self) -> None:
        """Go to the end, and stay there."""
        self.is_following = True
        self._is_held = False
        self._settle()
        self.refresh()

    def release(self) -> None:
        """Go on after the user has let the mouse go: not to the end, if text is selected."""
        if self._is_held:
            self._is_held = False
            if self.text_selection is not None:
                self.is_following = self.hidden_below == 0
            self._settle()
            self.refresh()

    @property
    def free_rows(self) -> int:
        """How many lines of the window are below the conversation."""
        return max(0, self.size.height - self._tops[-1])

    @property
    def hidden_below(self) -> int:
        """How many lines are below the window."""
        return max(0, self._tops[-1] - self.size.height - self.scroll_offset.y)

    @property
    def cached_entries(self) -> int:
        """How many entries have lines in memory."""
        return len(self._cache)

    @property
    def made_lines(self) -> int:
        """How many lines of long texts are in memory."""
        return sum(lines.made_lines for lines in self._cache.values())

    def _redraw(self) -> None:
        """Show an image that has been decoded; what is above the window stays above."""
        self._settle()
        self.refresh()

    def _reset(self) -> None:
        self._width = self.scrollable_content_region.width or self.size.width
        self._cache.clear()
        entries = [] if self.timeline is None else self.timeline.entries
        self._heights = [estimated_height(entry, self._width) for entry in entries]
        self._tops = [0] * (len(entries) + 1)
        self._fix_tops(0)

    def _fix_tops(self, first: int) -> None:
        top = self._tops[first]
        for at in range(first, len(self._heights)):
            self._tops[at] = top
            top += self._heights[at]
        self._tops[len(self._heights)] = top

    def _lines(self, at: int) -> Lines:
        assert self.timeline is not None
        entries = self.timeline.entries
        lines = self._cache.get(at)
        if lines is None or lines.entry is not entries[at]:
            lines = EntryLines(entries[at], self._width, self._previews, self._redraw)
        else:
            del self._cache[at]
        self._cache[at] = lines  # the last one is the one that was used last
        joins = at == 0 or (_is_small(entries[at]) and _is_small(entries[at - 1]))
        return lines.lines(self.cwd, joins)

    def _settle(self) -> None:
        """Measure what is in the window and near it; keep the window on the same lines."""
        if self._is_settling or not self._heights or not self._width:
            self._set_size()
            return
        self._is_settling = True
        try:
            for _ in range(4):  # measuring can bring more into the window
                if not self._measure():
                    break
            self._set_size()
            if self._sticks_to_end:
                self._scroll_now(max(0, self._tops[-1] - self.size.height))
            self._drop_far()
        finally:
            self._is_settling = False

    @property
    def _sticks_to_end(self) -> bool:
        return self.is_following and not self._is_held

    def _measure(self) -> bool:
        """Measure the entries near the window; return whether a height was wrong."""
        height = max(self.size.height, 1)
        top = max(0, self._tops[-1] - height) if self._sticks_to_end else self.scroll_offset.y
        margin = 0 if self._sticks_to_end else MARGIN
        first = self._at_line(top - margin)
        last = self._at_line(top + height)
        wrong, above = False, 0
        window = self._at_line(top)
        for at in range(first, last + 1):
            lines, begin = self._lines(at), top - self._tops[at]
            added = lines.measure(begin - margin, begin + height, begin)
            measured = len(lines)
            if measured != self._heights[at]:
                wrong = True
                if at < window:
                    above += measured - self._heights[at]
                elif at == window:
                    above += added
                self._heights[at] = measured
        if wrong:
            self._fix_tops(first)
        if above and not self._sticks_to_end:
            self._set_size()
            self._scroll_now(max(0, self.scroll_offset.y + above))
        return wrong

    def _at_line(self, line: int) -> int:
        """Return the entry at a line of the whole conversation."""
        at = bisect_right(self._tops, max(line, 0)) - 1
        return min(max(at, 0), len(self._heights) - 1)

    def _set_size(self) -> None:
        size = Size(self._width, self._tops[-1])
        if size == self.virtual_size:
            return
        if size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        # Only the scroll bar changes. Textual would arrange the whole screen again.
        self.set_reactive(Widget.virtual_size, size)  # pyright: ignore[reportArgumentType]  # a descriptor
        bar = self.vertical_scrollbar
        bar.window_virtual_size, bar.window_size = size.height, self.size.height

    def _drop_far(self) -> None:
        while len(self._cache) > MAX_CACHED:
            del self._cache[next(iter(self._cache))]

    # Drawing.

    def line(self, number: int) -> tuple[int, Strip]:
        """Return the key of a line, counted from the beginning, and the line itself."""
        below = number - self._tops[-1]
        if 0 <= below < len(self._welcome):
            return len(self._heights) * STRIDE + below, self._welcome[below]
        if not self._heights or below >= 0:
            return len(self._heights) * STRIDE, Strip([])
        at = self._at_line(number)
        lines = self._lines(at)
        inside = number - self._tops[at]
        is_line = inside < len(lines)
        strip = lines[inside] if is_line else Strip([])
        key = lines.key(inside) if is_line else STRIDE - 1
        if at == self.selected and self.has_focus:
            mark = Segment("▎", Style(color="yellow", bold=True))
            strip = Strip([mark, *strip.crop(1)]) if strip.cell_length else Strip([mark])
        return at * STRIDE + key, strip

    def lines_between(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Yield the keys and texts of the lines from one key to another."""
        for at in range(first // STRIDE, min(last // STRIDE, len(self._heights) - 1) + 1):
            base = at * STRIDE
            for key, strip in self._lines(at).keyed(first - base, last - base):
                yield base + key, strip.text
            self._drop_far()

    def margin(self, text: str) -> int:
        """Return how many characters of a line belong to the layout: they are not copied."""
        indent = " " * INDENT
        return INDENT + len(GUTTER) if text.startswith(indent + GUTTER) else INDENT

    # Scrolling and choosing.

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Measure what comes into the window."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_settling:
            self.is_following = new_value >= self.max_scroll_y
            self._settle()
            self.post_message(self.Moved())

    def _scroll_now(self, line: int) -> None:
        """Go to a line in this frame; the wheel and the scroll bar continue from there."""
        self.set_scroll(None, line)
        self.scroll_target_y = float(line)
        self.vertical_scrollbar.position = line

    def on_resize(self, event: events.Resize) -> None:
        """Fold everything again at a new width, around the same entry."""
        self.post_message(self.Moved())
        width = self.scrollable_content_region.width or event.size.width
        if width == self._width:
            self._settle()
            return
        at = self._at_line(self.scroll_offset.y) if self._heights else 0
        self._reset()
        if not self.is_following and self._heights:
            self._set_size()
            self._scroll_now(self._tops[at])
        self._settle()
        self.refresh()

    def on_mouse_down(self) -> None:
        """Let the text stay under the mouse."""
        self._is_held = True

    def focus_on_click(self) -> bool:
        """Return that the keyboard stays where it is: the user keeps typing."""
        return False

    def on_click(self, event: events.Click) -> None:
        """Select the entry under the mouse; open it, or fold it at its first line."""
        line = self.scroll_offset.y + event.y
        is_for_text = event.chain > 1 or self.text_selection is not None
        if is_for_text or not self._heights or line >= self._tops[-1]:
            return
        at = self.selected = self._at_line(line)
        number = event.style.meta.get(PICTURE)
        if isinstance(number, int):
            self._choose("view", number)
            return
        lines = self._lines(at)
        first = next((n for n in range(min(len(lines), 2)) if lines[n].cell_length), 0)
        if not self._is_open(at) or line - self._tops[at] <= first:
            self.action_fold()

    def _is_open(self, at: int) -> bool:
        return self.timeline is not None and self.timeline.entries[at].expanded is True

    def on_key(self, event: events.Key) -> None:
        """Let a letter that means nothing here go to the prompt."""
        has_meaning = self._bindings.key_to_bindings.get(event.key) and not self._is_leaving
        is_text = event.is_printable and not has_meaning
        if event.key == "escape" or is_text:
            event.stop()
            event.prevent_default()
            self.post_message(self.Left((event.character or "") if is_text else ""))
            self._is_leaving = True  # the letters that follow belong to the first one

    def on_paste(self, event: events.Paste) -> None:
        """Let a pasted text go to the prompt."""
        event.stop()
        self.post_message(self.Left(event.text))

    def on_focus(self) -> None:
        """Select the last entry."""
        if self.selected is None and self._heights:
            self.selected = self._at_line(self.scroll_offset.y + self.size.height - 1)
        self.refresh()

    def on_blur(self) -> None:
        """Remove the mark."""
        self._is_leaving = False
        self.refresh()

    def action_select(self, step: int) -> None:
        """Select the next entry, or the previous one."""
        if not self._heights:
            return
        at = len(self._heights) if self.selected is None else self.selected
        self.selected = min(max(at + step, 0), len(self._heights) - 1)
        self._show_selected()

    def _show_selected(self) -> None:
        assert self.selected is not None
        self._lines(self.selected)
        top, end = self._tops[self.selected], self._tops[self.selected + 1]
        window = self.scroll_offset.y
        if top < window or end - top > self.size.height:
            self.scroll_to(y=top, animate=False)
        elif end > window + self.size.height:
            self.scroll_to(y=end - self.size.height, animate=False)
        self.refresh()

    def action_fold(self) -> None:
        """Open or fold the selected entry."""
        timeline = self.timeline
        if timeline is None or self.selected is None or self.selected >= len(timeline.entries):
            return
        entry = timeline.entries[self.selected]
        if not is_expandable(entry):
            self.refresh()
            return
        entry.expanded = not entry.expanded
        self.is_following = False
        self._heights[self.selected] = len(self._lines(self.selected))
        self._fix_tops(self.selected)
        self._settle()
        self.is_following = self.hidden_below == 0
        self.refresh()

    def action_view(self) -> None:
        """Show all of the selected entry."""
        self._choose("view")

    def action_copy(self) -> None:
        """Copy the selected entry."""
        self._choose("copy")

    def action_edit(self) -> None:
        """Open the file of the selected entry."""
        self._choose("edit")

    def _choose(self, action: str, picture: int = 0) -> None:
        timeline = self.timeline
        if timeline is not None and self.selected is not None:
            self.post_message(self.Chosen(timeline.entries[self.selected], action, picture))


def _is_small(entry: Entry) -> bool:
    """Return whether an entry needs no empty line to another such entry."""
    return isinstance(entry.content, ToolCall | Remark)
