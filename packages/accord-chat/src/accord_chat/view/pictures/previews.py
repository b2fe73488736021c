"""Small images in the conversation: decoded in a thread when they come near the screen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from rich.style import Style
from textual.strip import Strip

from accord_chat.model.pictures import Picture, size_text
from accord_chat.view.pictures.background import Background
from accord_chat.view.pictures.decode import Broken, Pixels, decode
from accord_chat.view.pictures.half_cells import half_cells
from accord_chat.view.strips import row_strips
from accord_terminal.toolkit.text import Row, one_line

PICTURE = "picture"  # the key of the number of an image in the metadata of a cell's style
MAX_COLUMNS = 48
MAX_LINES = 10
MIN_COLUMNS = 24  # of a conversation; a narrower one shows one line for each image
MAX_KEPT = 64

# None: it is being decoded.
Decoded: TypeAlias = Pixels | Broken | None


class Previews:
    """Decodes one image at a time, and keeps the small images that were used last."""

    def __init__(self) -> None:
        self.has_colours = True  # if not, there is one line for each image
        self._kept: OrderedDict[bytes, Pixels | Broken] = OrderedDict()
        self._waiting: dict[bytes, set[Callable[[], None]]] = {}  # what to call when it is decoded
        self._thread = Background()

    def close(self) -> None:
        """Decode nothing more."""
        self._thread.close()

    def lines(
        self, picture: Picture, number: int, width: int, redraw: Callable[[], None]
    ) -> list[Strip]:
        """Return the lines of an image; `redraw` is called when there are others."""
        decoded = self._decoded(picture, redraw)
        strips = row_strips([Row(title_of(picture, decoded), "magenta", "▣ ")], width)
        if isinstance(decoded, Pixels) and self.has_colours and width >= MIN_COLUMNS:
            strips += half_cells(decoded, Style.from_meta({PICTURE: number}))
        return strips

    def _decoded(self, picture: Picture, redraw: Callable[[], None]) -> Decoded:
        data = picture.data
        if data in self._waiting:
            self._waiting[data].add(redraw)  # the same image in two places
            return None
        if data in self._kept:
            self._kept.move_to_end(data)
            return self._kept[data]
        self._waiting[data] = {redraw}
        results: list[Pixels | Broken] = []

        def work() -> None:
            try:
                results.append(decode(data, MAX_COLUMNS, 2 * MAX_LINES))
            except Broken as broken:
                results.append(broken)

        def done() -> None:
            self._kept[data] = results[0]
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            for waiting in self._waiting.pop(data):
                waiting()

        self._thread.submit(work, done)
        return None


def title_of(picture: Picture, decoded: Decoded) -> str:
    """Return a line about an image."""
    kind = picture.mime_type or one_line(picture.declared_type, 40) or "unknown type"
    parts = [one_line(picture.name, 60)] if picture.name else []
    parts.append(kind)
    if isinstance(decoded, Pixels):
        parts.append(f"{decoded.full_width}×{decoded.full_height} pixels")
    parts.append(size_text(len(picture.data)))
    if isinstance(decoded, Broken):
        parts.append(f"cannot be shown: {decoded}")
    return " · ".join(parts)
