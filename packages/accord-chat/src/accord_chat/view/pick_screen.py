"""Lists to choose from, filtered by what is typed.

`SearchList` is a screen with a field and a list below it, `PickScreen` one of fixed choices. Keys
act in the order in which they were typed: the field passes everything on in one queue, a text to
search, a step in the list, and Enter. So letters, Down and Enter that arrive together choose what
they choose one after the other, also while the screen opens or its list is still being loaded.
`Field` alone is a line of text to fill in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from accord_chat.model.prompts import best_matches
from accord_terminal.toolkit.text import one_line


class Field(Input):
    """A line of text to fill in, which handles keys in their order.

    Textual runs the bindings of a widget later, and while it is busy, letters that follow would
    overtake Backspace and Enter.
    """

    async def on_key(self, event: events.Key) -> None:
        """Run the binding of a key at once; letters are inserted by the widget itself.

        A key that does nothing here, as Ctrl+C without a selection, is left to the screen.
        """
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]
        bindings = self._bindings.key_to_bindings.get(event.key)
        if bindings and await app.run_action(bindings[0].action, self):
            event.stop()
            event.prevent_default()


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


MAX_SHOWN = 300

T = TypeVar("T")


class Choice(Struct, Generic[T], frozen=True):
    """A line of the list."""

    label: str
    value: T
    detail: str = ""
    is_current: bool = False


class PickScreen(SearchList[T], Generic[T]):
    """Returns the value of the chosen line, None if the user leaves."""

    DEFAULT_CSS = """
    PickScreen { align: center middle; }
    PickScreen > Vertical {
        width: 90%; max-width: 90; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold; border-subtitle-color: $text-muted;
    }
    PickScreen Input {
        border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1;
    }
    PickScreen OptionList {
        height: auto; max-height: 18; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice[T]],
        hint: str = "",
        *,
        typed: Callable[[str], Sequence[Choice[T]]] | None = None,
        placeholder: str = "Type to search",
    ) -> None:
        super().__init__()
        self._typed = typed  # what can also be chosen for a text, after what was found
        self._placeholder = placeholder
        self._title = title
        self._hint = hint or "Enter chooses · Esc leaves"
        self._choices = list(choices)
        self._shown: list[Choice[T]] = []

    def compose(self) -> ComposeResult:
        """Make the field and the list."""
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = self._hint
            yield SearchField(placeholder=self._placeholder, compact=True)
            yield OptionList()

    def on_mount(self) -> None:
        """Show all lines."""
        self._filter("")
        current = [number for number, choice in enumerate(self._shown) if choice.is_current]
        options = self.query_one(OptionList)
        options.can_focus = False
        if self._shown:
            options.highlighted = current[0] if current else 0

    def choose(self, at: int) -> None:
        """Return the value of a line."""
        if at < len(self._shown):
            self.dismiss(self._shown[at].value)

    def search(self, query: str) -> None:
        """Show the lines that match."""
        self._filter(query.strip())

    def _filter(self, query: str) -> None:
        texts = {
            f"{choice.label} {choice.detail}\0{n}": choice for n, choice in enumerate(self._choices)
        }
        found = best_matches(query, texts, MAX_SHOWN)
        self._shown = [texts[text] for text in found]
        if self._typed is not None:
            self._shown += self._typed(query)
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_line(choice)) for choice in self._shown)
        if self._shown:
            options.highlighted = 0
        elif query:
            options.add_option(Option(no_match(query), disabled=True))


def _line(choice: Choice[T]) -> Text:
    mark = "✓ " if choice.is_current else "  "
    parts = [(mark, "green"), one_line(choice.label, 120)]
    if choice.detail:
        parts.append((f"  {one_line(choice.detail, 120)}", "dim"))
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def no_match(query: str) -> Text:
    """Return what a list shows that has nothing for a text."""
    return Text(f"  No match for {one_line(query, 60)}", "dim", no_wrap=True, overflow="ellipsis")
