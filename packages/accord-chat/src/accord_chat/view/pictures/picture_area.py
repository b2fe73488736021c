"""One image, as large as its place: as graphics of the terminal, or in half cells."""

from __future__ import annotations

from msgspec import Struct
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from accord_chat.model.pictures import Picture
from accord_chat.view.pictures.background import Background
from accord_chat.view.pictures.decode import Broken, Pixels, decode
from accord_chat.view.pictures.half_cells import half_cells
from accord_chat.view.pictures.kitty import kitty, kitty_removed
from accord_chat.view.pictures.sixel import sixel
from accord_chat.view.pictures.terminal import Terminal
from accord_chat.view.pictures.terminal_replies import Protocol, TerminalGraphics

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
    """Shows an image in the middle of its place."""

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
