"""A whole text on the whole screen: a long answer, the output of a tool, help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from accord_chat.view.rows_view import RowsView
from accord_terminal.toolkit.text import Row


class ViewerScreen(ModalScreen[None]):
    """Shows rows until Escape or q."""

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
