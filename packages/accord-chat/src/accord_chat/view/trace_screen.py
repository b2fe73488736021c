"""The messages of the protocol with an agent as they pass, and what the agent writes to stderr."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from msgspec import Struct, structs
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message as TextualMessage
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from accord.text import lenient_json
from accord.text.excerpt import visible
from accord_chat.live_session import LiveSession
from accord_chat.model.traffic import Message, Traffic, matches
from accord_chat.view.lazy_lines import ansi_strip
from accord_chat.view.pick_screen import Field
from accord_chat.view.text_views import RowsView, ViewerScreen
from accord_terminal.toolkit.text import Row, last_lines, one_line
from accord_terminal.trace.show import short_line
from accord_trace.selection import Filter
from accord_trace.summary import counted, duration, size

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


LOOK_S = 0.2
MAX_SHOWN = 200_000  # characters of a message
MAX_ROWS = 3000
KEYS = "/ search · e errors · s session · w record · Tab stderr · Enter · Esc"


class _Recorded(Struct, frozen=True):
    messages: int = -1
    output: int = -1
    text: str = ""


class TraceScreen(ModalScreen[None]):
    """Shows one line per message; Tab shows stderr."""

    DEFAULT_CSS = """
    TraceScreen > Vertical {
        width: 100%; height: 100%; border: round $primary; background: $surface;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    TraceScreen #head {
        height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
    }
    TraceScreen Input { border: none; height: 1; padding: 0 1; display: none; }
    TraceScreen Input.open { display: block; }
    TraceScreen #stderr { height: 1fr; display: none; }
    TraceScreen.stderr #stderr { display: block; }
    TraceScreen.stderr MessageList { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", show=False),
        Binding("e", "errors", show=False),
        Binding("s", "session", show=False),
        Binding("w", "record", show=False),
        Binding("tab", "other", show=False, priority=True),
        Binding("escape", "leave", show=False),
        Binding("q", "leave", show=False),
    ]

    def __init__(self, traffic: Traffic, session: LiveSession) -> None:
        super().__init__()
        self._traffic = traffic
        self._session = session
        self._filter = Filter()
        self._drawn = _Recorded()

    def compose(self) -> ComposeResult:
        """Make the head, the messages and stderr."""
        with Vertical() as box:
            box.border_title = f"Messages of {one_line(self._session.agent_name, 40)}"
            box.border_subtitle = KEYS
            yield Static(id="head")
            yield Field(placeholder="Text or method", compact=True)
            yield MessageList(self._traffic, self._session.link.connections)
            yield RowsView(id="stderr")

    def on_mount(self) -> None:
        """Show what there is, and look again and again."""
        self._messages.focus()
        self.set_interval(LOOK_S, self._look)
        self.call_after_refresh(self._look)

    @property
    def _messages(self) -> MessageList:
        return self.query_one(MessageList)

    @property
    def _stderr(self) -> RowsView:
        return self.query_one(RowsView)

    def _look(self) -> None:
        link = self._session.link
        self._messages.look()
        head = self._head()
        if self._drawn.text != head.plain:
            self.query_one("#head", Static).update(head)
        if self._drawn.output != link.output_lines:
            self._stderr.show_rows(Row(line) for line in _plain(link.output))
            self._stderr.scroll_end(animate=False)
        self._drawn = _Recorded(self._traffic.total, link.output_lines, head.plain)

    def _head(self) -> Text:
        shows_stderr = self.has_class("stderr")
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        text.append(
            f" {counted(self._messages.shown, 'message')} ", "" if shows_stderr else "reverse"
        )
        lines = counted(self._session.link.output_lines, "line")
        text.append(f" stderr: {lines} ", "reverse" if shows_stderr else "")
        wanted = self._filter
        for words, is_set in (
            ("only errors", wanted.errors),
            ("only this session", bool(wanted.sessions)),
            (f"with “{wanted.text}”", bool(wanted.text)),
        ):
            if is_set:
                text.append(f" · {words}", "yellow")
        if self._traffic.path is not None:
            text.append(f" · recording to {self._traffic.path.name}", "red")
        elif self._traffic.problem:
            text.append(f" · {one_line(self._traffic.problem)}", "red")
        if not self._messages.is_following:
            text.append(" · End follows", "dim")
        return text

    def _select(self, **changes: object) -> None:
        self._filter = structs.replace(self._filter, **changes)
        self._messages.select(self._filter)
        self._look()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the messages that contain what is typed."""
        event.stop()
        self._select(text=event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the messages that were found."""
        event.stop()
        self._messages.focus()

    def on_key(self, event: events.Key) -> None:
        """Go from the search to what it found."""
        if event.key == "down" and self.query_one(Input).has_focus:
            event.stop()
            self._messages.focus()

    def on_message_list_opened(self, event: MessageList.Opened) -> None:
        """Show a whole message."""
        event.stop()
        message = event.message
        title = f"Message {message.number + 1}"
        self.app.push_screen(ViewerScreen(title, _whole(message)))  # pyright: ignore[reportUnknownMemberType]

    # Keys.

    def action_search(self) -> None:
        """Search a text or a method."""
        field = self.query_one(Input)
        field.add_class("open")
        field.focus()

    def action_errors(self) -> None:
        """Show only errors, or everything again."""
        self._select(errors=not self._filter.errors)

    def action_session(self) -> None:
        """Show only the session and its subagents, or everything again."""
        session = self._session
        mine = () if session.session_id is None else (session.session_id,)
        mine += tuple(session.transcript.subagents)
        self._select(sessions=() if self._filter.sessions else mine)

    def action_record(self) -> None:
        """Begin to record to a file of the folder, or end it."""
        traffic = self._traffic
        if traffic.path is not None:
            path = traffic.path
            traffic.stop_writing()
            self.notify(f"Recorded: {path}", markup=False)
        else:
            name = f"chat-{datetime.now():%Y%m%d-%H%M%S}.acp.jsonl"
            try:
                traffic.write_to(self._session.cwd / name)
            except OSError as error:
                self.notify(f"Not recorded: {error.strerror}", severity="error", markup=False)
            else:
                self.notify(f"Recording to {name}; w ends it.", markup=False)
        self._look()

    def action_other(self) -> None:
        """Show stderr, or the messages again."""
        self.toggle_class("stderr")
        (self._stderr if self.has_class("stderr") else self._messages).focus()
        self._look()

    def action_leave(self) -> None:
        """End the search, then leave."""
        field = self.query_one(Input)
        if field.has_class("open"):
            field.value = ""
            field.remove_class("open")
            self._messages.focus()
        else:
            self.dismiss(None)


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without colours and control characters."""
    for line in lines:
        yield "".join(last_lines(line, 1)[0])


def _whole(message: Message) -> Iterator[Row]:
    """Yield a message with everything that is known of it."""
    record = message.record()
    row = message.row(record)
    yield Row(
        f"{row.kind} {one_line(row.method, 100)}".strip(), "bold red" if row.is_error else "bold"
    )
    yield Row(f"{row.ts:.3f} s · {row.sender} → {row.receiver} · {size(row.bytes)}", "dim")
    if row.session is not None:
        yield Row(f"session {one_line(row.session, 200)}", "dim")
    if row.pair is not None and row.latency_s is not None:
        words = "failed" if row.is_error else "succeeded"
        yield Row(f"request {row.pair + 1} {words} after {duration(row.latency_s)}", "dim")
    if record.redacted:
        yield Row("without secrets: environment, headers, logins", "dim")
    if message.is_cut:
        yield Row(
            "Only the beginning of a large message is kept: a recording has all of it.", "yellow"
        )
    yield Row("")
    frame = record.frame
    text = frame[: 4 * MAX_SHOWN].decode("utf-8", "replace")
    if len(frame) <= MAX_SHOWN:
        with suppress(lenient_json.NotJson, RecursionError):
            text = json.dumps(lenient_json.loads(frame), indent=2, ensure_ascii=False)
    lines = visible(text[:MAX_SHOWN]).split("\n")
    yield from (Row(line, whole_words=False) for line in lines[:MAX_ROWS])
    if len(lines) > MAX_ROWS or len(text) > MAX_SHOWN:
        yield Row("… more is not shown: a recording has all of it", "yellow")
