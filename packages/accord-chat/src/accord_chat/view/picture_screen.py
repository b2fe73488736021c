"""The images of an entry on the whole screen, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from accord_chat.model.conversation import Picture, save_picture
from accord_chat.view.pictures import (
    Background,
    Broken,
    Pixels,
    decode,
    half_cells,
    kitty,
    kitty_removed,
    sixel,
    title_of,
)
from accord_chat.view.terminal import Protocol, Terminal, TerminalGraphics


class PictureScreen(ModalScreen[bool]):
    """Shows images until Escape or q; True if the user wants to read the text of the entry."""

    DEFAULT_CSS = """
    PictureScreen { align: center middle; }
    PictureScreen > Vertical {
        width: 100%; height: 100%; border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    PictureScreen Static { height: auto; display: none; }
    PictureScreen Static.broken { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,v", "leave(False)", show=False),
        Binding("t", "leave(True)", show=False),
        Binding("right,down,space", "step(1)", show=False),
        Binding("left,up", "step(-1)", show=False),
        Binding("s", "save", show=False),
    ]

    def __init__(
        self,
        pictures: Sequence[Picture],
        number: int,
        folder: Path,
        terminal: Terminal,
        *,
        has_text: bool,
    ) -> None:
        super().__init__()
        self._pictures = pictures
        self._number = min(number, len(pictures) - 1)
        self._folder = folder
        self._terminal = terminal
        self._has_text = has_text

    def compose(self) -> ComposeResult:
        """Make the box."""
        with Vertical() as box:
            box.border_subtitle = Content(self._keys())
            yield Static()
            yield PictureArea(self._terminal, self._picture)

    def on_mount(self) -> None:
        """Say what is shown."""
        self._say_title(title_of(self._picture, None))

    @property
    def _picture(self) -> Picture:
        return self._pictures[self._number]

    def _keys(self) -> str:
        several = len(self._pictures) > 1
        keys = ["← → others" if several else "", "s saves", "t text" if self._has_text else ""]
        return " · ".join(key for key in [*keys, "Esc leaves"] if key)

    def _say_title(self, title: str) -> None:
        count = len(self._pictures)
        place = f"{self._number + 1} of {count} · " if count > 1 else ""
        self.query_one(Vertical).border_title = Content(f"{place}{title}")

    def on_picture_area_decoded(self, event: PictureArea.Decoded) -> None:
        """Say what is shown, or why nothing is."""
        event.stop()
        if event.picture is not self._picture:
            return
        title, broken = title_of(event.picture, event.decoded), isinstance(event.decoded, Broken)
        self._say_title(title)
        message = self.query_one(Static)
        message.set_class(broken, "broken")
        message.update(Content(f"This image cannot be shown: {event.decoded}." if broken else ""))

    def action_step(self, step: int) -> None:
        """Show the next image, or the previous one."""
        if len(self._pictures) == 1:
            return
        self._number = (self._number + step) % len(self._pictures)
        self._say_title(title_of(self._picture, None))
        self.query_one(PictureArea).show(self._picture)

    def action_save(self) -> None:
        """Write the image to a file in the folder of the session."""
        try:
            text = f"Saved: {save_picture(self._folder, self._picture, datetime.now()).name}"
        except OSError as error:
            text = f"Not saved: {error.strerror}"
        self.query_one(Vertical).border_subtitle = Content(f"{text} · Esc leaves")

    def action_leave(self, wants_text: bool) -> None:
        """Go back."""
        if wants_text and not self._has_text:
            return
        self.query_one(PictureArea).remove_graphics()
        self.dismiss(wants_text)


CELL_WIDTH, CELL_HEIGHT = 8, 16  # pixels, if the terminal does not say it
MAX_WIDTH, MAX_HEIGHT = 1280, 960  # pixels of graphics


class _Drawing(Struct, frozen=True):
    """What shows an image at one size."""

    protocol: Protocol | None
    columns: int
    lines: int
    strips: list[Strip]  # half cells
    graphics: str


class PictureArea(Widget):
    """Shows one image as large as its place: as graphics of the terminal, or in half cells."""

    DEFAULT_CSS = "PictureArea { height: 1fr; }"

    class Decoded(Message):
        """An image was decoded, or cannot be."""

        def __init__(self, picture: Picture, decoded: Pixels | Broken) -> None:
            super().__init__()
            self.picture = picture
            self.decoded = decoded

    def __init__(self, terminal: Terminal, picture: Picture) -> None:
        super().__init__()
        self.drawn: Protocol | None = None  # graphics that are on the screen
        self._terminal = terminal
        self._picture = picture
        self._drawing: _Drawing | None = None
        self._paint_planned = False
        self._thread = Background()

    def show(self, picture: Picture) -> None:
        """Show another image."""
        self._picture = picture
        self._start()

    def on_resize(self, event: events.Resize) -> None:
        """Make the image for the new size."""
        self._start()

    def on_unmount(self) -> None:
        """Decode nothing more."""
        self._thread.close()

    def remove_graphics(self) -> None:
        """Take graphics off the screen, so that text can be there again."""
        if self.drawn == "kitty":
            self._terminal.write(kitty_removed())
        elif self.drawn == "sixel":
            self._terminal.write("\x1b[2J")  # all text is drawn again
        self.drawn = None

    def _start(self) -> None:
        self.remove_graphics()
        self._drawing = None
        self.refresh()
        if self.size.width and self.size.height:
            self.run_worker(self._make(self._picture), exclusive=True)

    async def _make(self, picture: Picture) -> None:
        graphics = await self._terminal.graphics()
        columns, lines = self.size
        results: list[tuple[Pixels, _Drawing] | Broken] = []

        def work() -> None:
            if picture is self._picture:  # not another one by now
                try:
                    results.append(_made(picture.data, graphics, columns, lines))
                except Broken as broken:
                    results.append(broken)

        def done() -> None:
            if results and picture is self._picture and (columns, lines) == self.size:
                self._show_drawing(picture, results[0])

        self._thread.submit(work, done)

    def _show_drawing(self, picture: Picture, made: tuple[Pixels, _Drawing] | Broken) -> None:
        if isinstance(made, Broken):
            self.post_message(self.Decoded(picture, made))
        else:
            pixels, self._drawing = made
            self.post_message(self.Decoded(picture, pixels))
        # The question can have left its traces in terminals that do not know it.
        self.screen.refresh()
        self.refresh()

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """Return a line of half cells; of graphics, an empty line."""
        drawing, width = self._drawing, self.size.width
        if drawing is None or drawing.protocol is not None:
            return Strip.blank(width, self.rich_style)
        line = y - (self.size.height - drawing.lines) // 2
        if not 0 <= line < len(drawing.strips):
            return Strip.blank(width, self.rich_style)
        left = Strip.blank((width - drawing.columns) // 2)
        strip = Strip.join([left, drawing.strips[line]])
        return strip.adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines; graphics are drawn over them when they are on the screen."""
        drawing = self._drawing
        if drawing is not None and drawing.protocol is not None and not self._paint_planned:
            self._paint_planned = True
            self.call_after_refresh(self._paint)
        return super().render_lines(crop)

    def _paint(self) -> None:
        self._paint_planned = False
        drawing = self._drawing
        if drawing is None or drawing.protocol is None or not self.screen.is_current:
            return
        if self.drawn == "kitty":
            return  # text does not remove it
        area = self.content_region
        x = area.x + max(0, area.width - drawing.columns) // 2
        y = area.y + max(0, area.height - drawing.lines) // 2
        self._terminal.write(f"\x1b7\x1b[{y + 1};{x + 1}H{drawing.graphics}\x1b8")
        self.drawn = drawing.protocol


def _made(
    data: bytes, graphics: TerminalGraphics, columns: int, lines: int
) -> tuple[Pixels, _Drawing]:
    """Decode an image and draw it. This takes long: call it in a thread."""
    if graphics.protocol is None:
        pixels = decode(data, columns, 2 * lines)
        strips = list(half_cells(pixels))
        return pixels, _Drawing(None, pixels.width, len(strips), strips, "")
    width, height = graphics.cell_width or CELL_WIDTH, graphics.cell_height or CELL_HEIGHT
    pixels = decode(data, min(columns * width, MAX_WIDTH), min(lines * height, MAX_HEIGHT))
    columns, lines = -(-pixels.width // width), -(-pixels.height // height)
    text = kitty(pixels, columns, lines) if graphics.protocol == "kitty" else sixel(pixels)
    return pixels, _Drawing(graphics.protocol, columns, lines, [], text)
