"""A screen with a field and a list below it: the keys of the list work while the user types."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import OptionList

__all__ = ("SearchList",)

R = TypeVar("R")


class SearchList(ModalScreen["R | None"], Generic[R]):
    """Returns what the subclass dismisses it with, None if the user leaves.

    The subclass makes one `OptionList`, and marks its first line if one can be chosen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
    ]

    def on_click(self, event: events.Click) -> None:
        """Leave with a click outside."""
        if self.get_widget_at(*event.screen_offset)[0] is self:
            self.dismiss(None)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        """Mark another line."""
        options = self.query_one(OptionList)
        if options.highlighted is not None:  # there is a line that can be chosen
            at = options.highlighted + step
            options.highlighted = min(max(at, 0), options.option_count - 1)
