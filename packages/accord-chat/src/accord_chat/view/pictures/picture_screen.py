"""The images of an entry on the whole screen, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from accord_chat.model.pictures import Picture, save_picture
from accord_chat.view.pictures.decode import Broken
from accord_chat.view.pictures.picture_area import PictureArea
from accord_chat.view.pictures.previews import title_of
from accord_chat.view.pictures.terminal import Terminal


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
