"""A list to choose from, filtered by what is typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from accord_chat.model.fuzzy import best_matches
from accord_chat.view.search_list import SearchField, SearchList
from accord_terminal.toolkit.text import one_line

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
