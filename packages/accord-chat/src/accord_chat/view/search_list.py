"""A screen with a field and a list below it: keys act in the order in which they were typed.

The field passes everything on in one queue: a text to search, a step in the list, and Enter. So
letters, Down and Enter that arrive together choose what they choose one after the other, also
while the screen opens or its list is still being loaded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList

from accord_chat.view.field import Field

STEPS = {"down": 1, "ctrl+n": 1, "up": -1, "ctrl+p": -1, "pagedown": 10, "pageup": -10}

R = TypeVar("R")


class SearchField(Field):
    """The text to search; its keys for the list come after the letters before them."""

    class Stepped(Message):
        """The user moves in the list."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    async def on_key(self, event: events.Key) -> None:
        """Pass on the keys of the list."""
        if event.key not in STEPS:
            await super().on_key(event)
            return
        event.stop()
        event.prevent_default()
        self.post_message(self.Stepped(STEPS[event.key]))


class SearchList(ModalScreen["R | None"], Generic[R]):
    """Returns what the subclass dismisses it with, None if the user leaves.

    The subclass makes a `SearchField` and an `OptionList`, and calls `load_ends` if it set
    `is_loading`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self.is_loading = False  # there is nothing to choose from yet
        self._waiting: list[Callable[[], None]] = []  # until there is
        self._early: list[events.Key] = []  # keys before there is a field

    @abstractmethod
    def search(self, query: str) -> None:
        """Show the lines for a text, and mark the first one."""

    @abstractmethod
    def choose(self, at: int) -> None:
        """Choose a line; there may be no such line."""

    def load_ends(self) -> None:
        """Do what the user has typed while there was nothing to choose from."""
        self.is_loading = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def _do(self, action: Callable[[], None]) -> None:
        if self.is_loading:
            self._waiting.append(action)
        else:
            action()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the lines."""
        event.stop()
        self._do(lambda: self.search(event.value))

    def on_search_field_stepped(self, event: SearchField.Stepped) -> None:
        """Mark another line."""
        event.stop()
        self._do(lambda: self._move(event.step))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Choose the marked line."""
        event.stop()
        self._do(self._choose_marked)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose the line that was clicked."""
        event.stop()
        self.choose(event.option_index)

    def _move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:  # there is a line that can be chosen
            at = options.highlighted + step
            options.highlighted = min(max(at, 0), options.option_count - 1)

    def _choose_marked(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self.choose(at)

    def on_key(self, event: events.Key) -> None:
        """Keep what is typed before the field can have it."""
        is_for_field = (
            event.is_printable or event.key in STEPS or event.key in ("enter", "backspace")
        )
        if not is_for_field:
            return
        event.stop()
        event.prevent_default()
        self._early.append(event)
        self._pass_on()

    def _pass_on(self) -> None:
        for field in self.query(SearchField):
            early, self._early = self._early, []
            for event in early:
                field.post_message(events.Key(event.key, event.character))

    def on_screen_resume(self) -> None:
        """Give the field what was typed before it existed."""
        self._pass_on()

    def on_click(self, event: events.Click) -> None:
        """Leave with a click outside."""
        if self.get_widget_at(*event.screen_offset)[0] is self:
            self.dismiss(None)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)
