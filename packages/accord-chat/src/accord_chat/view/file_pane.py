"""The file that the agent works on, next to the conversation; on a narrow screen one line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from accord.client.events import ToolCall
from accord.local.files import Roots
from accord_chat.live_session import LiveSession
from accord_chat.model.changes import ChangeState, FileLine, FollowedFile, place_of, read_place
from accord_chat.view.text_views import SCROLL_KEYS, SelectableView
from accord_terminal.toolkit.text import one_line, printable, relative_path

PAUSE_S = 0.2  # between two looks at files
WIDE = 110  # columns from which on the file is shown, not only its name
MARGIN = 8  # of a line: its number and its sign
ABOVE = 3  # a part of the window is above the place
_WORDS: dict[ChangeState, str] = {
    "none": "",
    "proposed": "a proposed change",
    "made": "changed",
    "gone": "the change is not in the file",
}
_STYLES = {
    "+": Style(color="green"),
    "-": Style(color="red"),
    " ": Style(),
    "›": Style(color="yellow", bold=True),
}
_SCROLLING = frozenset(
    ("up", "down", "k", "j", "pageup", "pagedown", "space", "home", "end", "g", "G")
)
_DIM = Style(dim=True)


class FileView(SelectableView, can_focus=True):
    """The lines of a file with their numbers, cut at the width."""

    DEFAULT_CSS = """
    FileView { height: 1fr; background: $background; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *SCROLL_KEYS,
        Binding("o", "edit", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Scrolled(Message):
        """The user has scrolled."""

    class EditorWanted(Message):
        """The user wants to open the file."""

    class Left(Message):
        """The user wants to go back to the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[FileLine] = []

    def show(self, file: FollowedFile) -> None:
        """Show a file at its place."""
        lines = list(file.lines)
        at = file.at
        if lines and file.change == "none" and file.place.line is not None:
            lines[at] = FileLine(lines[at].text, lines[at].number, "›")
        if file.before:
            lines.insert(0, FileLine(f"… {file.before:,} lines before"))
            at += 1
        if file.after:
            lines.append(FileLine(f"… {file.after:,} lines after"))
        if file.problem:
            lines = [FileLine(one_line(file.problem))]
        self._lines = lines
        self.virtual_size = Size(self.size.width, len(lines))
        top = max(0, at - max(self.size.height // ABOVE, 1))
        self.scroll_to(y=top, animate=False, force=True, immediate=True)
        self.refresh()

    # Only what the user does: a window of another size scrolls, too.

    def on_key(self, event: events.Key) -> None:
        """Tell that the user has scrolled."""
        if event.key in _SCROLLING:
            self.post_message(self.Scrolled())

    def on_mouse_scroll_up(self) -> None:
        """Tell that the user has scrolled."""
        self.post_message(self.Scrolled())

    def on_mouse_scroll_down(self) -> None:
        """Tell that the user has scrolled."""
        self.post_message(self.Scrolled())

    def on_scroll_to(self) -> None:
        """Tell that the user has moved the scrollbar."""
        self.post_message(self.Scrolled())

    def line(self, number: int) -> tuple[int, Strip]:
        """Return a line of the file."""
        if number >= len(self._lines):
            return number, Strip([])
        line = self._lines[number]
        text = f"{line.sign} {_text(line)[: 4 * self.size.width]}"
        return number, Strip(
            [Segment(f"{line.number or '':>5} ", _DIM), Segment(text, _STYLES[line.sign])]
        )

    def lines_between(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Yield lines as they are copied: whole, also where the window cuts them."""
        for number in range(max(first, 0), min(last + 1, len(self._lines))):
            line = self._lines[number]
            yield number, f"{line.number or '':>5} {line.sign} {_text(line)}"

    def margin(self, text: str) -> int:
        """Return the width of the numbers and the signs."""
        return MARGIN

    def action_edit(self) -> None:
        """Open the file in the user's editor."""
        self.post_message(self.EditorWanted())

    def action_leave(self) -> None:
        """Go back to the prompt."""
        self.post_message(self.Left())


class FilePane(Vertical):
    """Shows where the agent works while it is switched on; it stops when the user scrolls it."""

    DEFAULT_CSS = """
    FilePane { width: 45%; display: none; border-left: solid $panel; }
    FilePane.open { display: block; }
    FilePane Static { height: 1; background: $panel; padding: 0 1; }
    """

    class Changed(Message):
        """What is followed has changed: the one line of a narrow screen is another."""

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, None]], None], key: str) -> None:
        super().__init__()
        self.is_on = False
        self.is_following = False
        self.file: FollowedFile | None = None
        self._spawn = spawn
        self._key = key
        self._session: LiveSession | None = None
        self._call: ToolCall | None = None  # the last one that was looked at
        self._is_reading = False

    def compose(self) -> ComposeResult:
        """Make the name and the file."""
        yield Static()
        yield FileView()

    def switch(self, session: LiveSession) -> None:
        """Follow; if it does already, stop and disappear."""
        self.is_on = self.is_following = not (self.is_on and self.is_following)
        self._call = None
        if not self.is_on:
            self.file = None
        self.update_from(session)
        self._draw()

    def update_from(self, session: LiveSession) -> None:
        """Look at the file of the tool call that was the last to change."""
        if not (self.is_on and self.is_following):
            return
        call = session.latest_call()
        if session is not self._session:
            self._session, self.file = session, None
            self._draw()
        if call is not None and call is not self._call and not self._is_reading:
            self._is_reading = True
            self._spawn(self._read(session, call))

    async def _read(self, session: LiveSession, call: ToolCall) -> None:
        try:
            self._call = call
            file = await asyncio.to_thread(_file_of, call, str(session.cwd))
            if self.is_on and self.is_following and session is self._session:
                self.file = file
                self._draw()
            await asyncio.sleep(PAUSE_S)  # a busy agent names many files
        finally:
            self._is_reading = False
        if self.is_attached and self._session is not None:
            self.update_from(self._session)

    def line_text(self) -> Text:
        """Return where the agent works, as one line."""
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        if self.file is None:
            text.append(f"⇢ The agent has not named a file · {self._key} stops following", "dim")
            return text
        place, cwd = self.file.place, "" if self._session is None else str(self._session.cwd)
        text.append(f"⇢ {one_line(relative_path(place.path, cwd), 200)}", "bold")
        text.append("" if place.line is None else f":{place.line}", "bold")
        words = one_line(self.file.problem) or _WORDS[self.file.change]
        text.append(f" · {words}" if words else "")
        if not self.is_following:
            text.append(f" · stopped, {self._key} follows again", "yellow")
        text.append(f" · {one_line(place.title, 60)}", "dim")
        return text

    def fit(self, columns: int) -> None:
        """Show the file if there is room next to the conversation."""
        self.set_class(self.is_on and columns >= WIDE, "open")

    def _draw(self) -> None:
        self.query_one(Static).update(self.line_text())
        if self.file is not None:
            self.query_one(FileView).show(self.file)
        self.post_message(self.Changed())

    def on_file_view_scrolled(self, event: FileView.Scrolled) -> None:
        """Stop, so that the user can read."""
        event.stop()
        if self.is_following and self.file is not None:
            self.is_following = False
            self.query_one(Static).update(self.line_text())

    def on_resize(self, event: events.Resize) -> None:
        """Show the place again in a window of another size."""
        if self.file is not None and self.is_following:
            self.query_one(FileView).show(self.file)


def _text(line: FileLine) -> str:
    return printable(line.text.expandtabs(4))


def _file_of(call: ToolCall, cwd: str) -> FollowedFile | None:
    place = place_of(call)
    return None if place is None else read_place(place, Roots([cwd]))
