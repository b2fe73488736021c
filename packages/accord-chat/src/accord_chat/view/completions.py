"""The list of completions above the prompt: slash commands, and files for `@`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.text import Text
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from accord.types.session import AvailableCommand
from accord_chat.model.fuzzy import best_matches
from accord_chat.model.mentions import mention_before, mention_text
from accord_terminal.toolkit.text import one_line

MAX_SHOWN = 50


class Completion(Struct, frozen=True):
    """What replaces the line from a column to the cursor."""

    start: int
    text: str
    label: str
    detail: str = ""


def completions_for(
    line: str, *, is_first_line: bool, commands: Sequence[AvailableCommand], paths: Sequence[str]
) -> list[Completion]:
    """Return the completions for the line up to the cursor, the best first."""
    if is_first_line and line.startswith("/") and " " not in line:
        known = {command.name: command for command in commands}
        names = best_matches(line[1:], known, MAX_SHOWN)
        return [Completion(0, f"/{name} ", f"/{name}", _about(known[name])) for name in names]
    mention = mention_before(line)
    if mention is None:
        return []
    found = best_matches(mention.query, paths, MAX_SHOWN)
    return [Completion(mention.start, f"{mention_text(path)} ", path) for path in found]


def _about(command: AvailableCommand) -> str:
    return f"{command.hint}: {command.description}" if command.hint else command.description


class CompletionList(OptionList, can_focus=False):
    """Shows completions; the prompt keeps the keyboard."""

    DEFAULT_CSS = """
    CompletionList {
        height: auto; max-height: 8; display: none;
        border: none; padding: 0 1; background: $panel;
    }
    CompletionList.open { display: block; }
    """

    class Accepted(Message):
        """A completion was clicked."""

        def __init__(self, completion: Completion) -> None:
            super().__init__()
            self.completion = completion

    def __init__(self) -> None:
        super().__init__(id="completions")
        self._completions: list[Completion] = []

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._completions)

    def show_completions(self, completions: Sequence[Completion]) -> None:
        """Show these, or nothing."""
        if list(completions) == self._completions:
            return
        self._completions = list(completions)
        self.clear_options()
        self.add_options(Option(_line(one)) for one in self._completions)
        self.set_class(bool(self._completions), "open")
        if self._completions:
            self.highlighted = 0

    def move(self, step: int) -> None:
        """Mark another one."""
        if self._completions:
            self.highlighted = ((self.highlighted or 0) + step) % len(self._completions)

    @property
    def marked(self) -> Completion | None:
        """The marked one."""
        at = self.highlighted
        return None if at is None or at >= len(self._completions) else self._completions[at]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose the one that was clicked."""
        event.stop()
        self.post_message(self.Accepted(self._completions[event.option_index]))


def _line(completion: Completion) -> Text:
    parts: list[str | tuple[str, str]] = [one_line(completion.label, 200)]
    if completion.detail:
        parts.append((f"  {one_line(completion.detail, 120)}", "dim"))
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
