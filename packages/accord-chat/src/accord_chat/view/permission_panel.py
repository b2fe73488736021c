"""The docked question for a permission: the whole action, and the agent's options."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import NULL_REGION
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from accord.client.events import Decision
from accord.client.permissions import is_distinct
from accord.types.permission import PermissionOption
from accord_chat.model.questions import PermissionQuestion, option_keys
from accord_chat.model.saved import RememberedRule
from accord_chat.view.text_views import RowsView
from accord_terminal.toolkit.questions import KINDS, MAX_OPTIONS, request_rows
from accord_terminal.toolkit.text import one_line, relative_title

# A key that was meant for the prompt must not answer.
IGNORE_KEYS_S = 0.5
# Nor a click that was meant for what was at its place before.
IGNORE_CLICKS_S = 1.0
PROMPT_ROWS = 2  # below the box on a low screen
LOW_ROWS = 16  # from here on, the box leaves room for everything else
LOWEST_ROWS = 12  # from here on, it leaves room for a line of the conversation
OTHER_ROWS = 5  # the conversation, and the lines around it
ACTION_ROWS = 3
PLACE_S = 0.2  # between two looks at the place of the box


class _Options(OptionList):
    """Knows which of its options are not on the screen."""

    @property
    def hidden(self) -> tuple[int, int]:
        """How many options begin above what is shown, and how many below."""
        first, rows = self.scroll_offset.y, self.size.height
        if not rows:
            return 0, 0
        lines = self._index_to_line.values()
        return sum(line < first for line in lines), sum(line >= first + rows for line in lines)


class PermissionPanel(Vertical, can_focus=True):
    """Asks one permission question. It is outside of the conversation: agents cannot draw it."""

    DEFAULT_CSS = """
    PermissionPanel {
        height: auto;
        border: heavy $warning;
        border-title-color: $warning;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        background: $surface;
        padding: 0 1;
    }
    PermissionPanel:focus-within { border: heavy $error; border-title-color: $error; }
    PermissionPanel > .title { text-style: bold; height: auto; max-height: 3; }
    PermissionPanel > RowsView { min-height: 1; }
    PermissionPanel > OptionList {
        height: auto; border: none; padding: 0; background: transparent;
    }
    PermissionPanel > OptionList:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "scroll_rows(-1)", show=False),
        Binding("pagedown,space", "scroll_rows(1)", show=False),
    ]

    class Answered(Message):
        """The user has decided."""

        def __init__(self, question: PermissionQuestion, decision: Decision) -> None:
            super().__init__()
            self.question = question
            self.decision: Decision = decision

    class Left(Message):
        """The user goes back to the prompt without an answer."""

    class Mistyped(Message):
        """A letter that was meant for the prompt."""

        def __init__(self, character: str) -> None:
            super().__init__()
            self.character = character

    def __init__(self, question: PermissionQuestion, waiting: int) -> None:
        super().__init__()
        self.question = question
        self.ignore_keys_until_s = time.monotonic() + IGNORE_KEYS_S
        self.in_place_since_s = time.monotonic()
        self._place = NULL_REGION
        self._ignores_click = False
        request = question.request
        self._options = request.options[:MAX_OPTIONS]
        self._keys = dict(zip(option_keys(self._options), self._options, strict=False))
        self._rules = dict(question.remembering())
        self.border_title = Content(f"{one_line(question.agent_name, 40)} asks for permission")
        self._more = f"{waiting} more · " if waiting else ""
        self._draw_hint()

    def compose(self) -> ComposeResult:
        """Make the title, the action and the options."""
        request = self.question.request
        call = request.tool_call
        title = relative_title(request.title or (call.title if call else ""), request.cwd)
        yield Static(Text(title or "May I continue?"), classes="title")
        yield RowsView(request_rows(request, title))
        if not self._options:
            yield Static("The agent sent no options to choose from: c cancels the request.")
        keys = {id(option): key for key, option in self._keys.items()}
        cwd = request.cwd
        yield _Options(
            *(Option(_label(keys.get(id(option), " "), option)) for option in self._options),
            *(Option(_rule_label(key, rule, cwd)) for key, rule in self._rules.items()),
        )

    def on_mount(self) -> None:
        """Choose nothing in advance: Enter alone must not allow anything."""
        self.query_one(OptionList).highlighted = None
        self.fit()
        self.set_interval(PLACE_S, self._look)

    def fit(self) -> None:
        """Leave room for all options, also on a low screen; the action scrolls in the rest."""
        height = self.screen.size.height
        title, options = self.query_one(".title"), self.query_one(OptionList)
        above = 2 + min(max(title.size.height, 1), 3)  # with the borders
        count = max(len(self._options) + len(self._rules), options.virtual_size.height)
        others = 0 if height < LOWEST_ROWS else 1 if height < LOW_ROWS else OTHER_ROWS
        most = max(
            height * 60 // 100,
            min(above + ACTION_ROWS + count, height - PROMPT_ROWS - others),
        )
        self.styles.max_height = most
        options.styles.max_height = max(most - above - 1, 2)
        self.query_one(RowsView).styles.max_height = max(most - above - count, 1)

    def on_resize(self) -> None:
        """Leave room for the title, which may need more lines now."""
        self.fit()

    def take_focus(self, *, asked: bool = False) -> None:
        """Take the keyboard; if the user did not ask for that, keys do not answer at once."""
        self.ignore_keys_until_s = 0.0 if asked else time.monotonic() + IGNORE_KEYS_S
        self.screen.set_focus(self.query_one(OptionList))  # before the next key

    def _draw_hint(self, *, has_keyboard: bool | None = None) -> None:
        """Say in the border which options are not on the screen, and what the keys do."""
        if has_keyboard is None:
            has_keyboard = self.has_focus_within
        keys = "PgUp/PgDn scroll · Esc to the prompt" if has_keyboard else "F10 answers"
        hidden = self._hidden_options() if self.is_mounted else ""
        if hidden:
            keys = "Esc to the prompt" if has_keyboard else "F10 answers"
            hidden += " · "
        self.border_subtitle = f"{hidden}{self._more}{keys}"

    def _hidden_options(self) -> str:
        """Return how many options are above and below what is shown, with their keys."""
        keys = [*self._keys, *self._rules]
        above, below = self.query_one(_Options).hidden
        parts = [("↑", keys[:above]), ("↓", keys[len(keys) - below :])]
        return " · ".join(
            f"{mark} {len(some)} more: {_spaced(some)}" for mark, some in parts if some
        )

    def _check_place(self) -> None:
        if self._place != self.region:
            self._place, self.in_place_since_s = self.region, time.monotonic()

    def _look(self) -> None:
        self._check_place()
        self._draw_hint()

    def on_mouse_down(self) -> None:
        """Let a click answer only if the box has been at its place for some time."""
        self._check_place()
        self._ignores_click = time.monotonic() < self.in_place_since_s + IGNORE_CLICKS_S

    def on_descendant_focus(self) -> None:
        """Say what the keys do."""
        self._draw_hint(has_keyboard=True)

    def on_descendant_blur(self) -> None:
        """Say how to come back."""
        self._draw_hint()

    def on_key(self, event: events.Key) -> None:
        """Answer with the key of an option."""
        self._ignores_click = False
        if event.key == "escape":
            event.stop()
            self.post_message(self.Left())
            return
        if time.monotonic() < self.ignore_keys_until_s:
            event.stop()
            event.prevent_default()
            if event.is_printable and event.character is not None:
                self.post_message(self.Mistyped(event.character))
            return
        option = self._keys.get(event.key)
        if option is not None:
            event.stop()
            self._answer(option)
        elif event.character in self._rules:
            event.stop()
            self._remember(self._rules[event.character])
        elif event.key == "c" and not self._options:
            event.stop()
            self.post_message(self.Answered(self.question, "cancel"))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer with the option that was clicked, or chosen with Enter."""
        event.stop()
        if self._ignores_click:
            self.notify("The question has just appeared: click again to answer.", timeout=3)
        elif time.monotonic() >= self.ignore_keys_until_s:
            at = event.option_index
            if at < len(self._options):
                self._answer(self._options[at])
            else:
                self._remember(list(self._rules.values())[at - len(self._options)])

    def action_scroll_rows(self, pages: int) -> None:
        """Scroll the action."""
        rows = self.query_one(RowsView)
        rows.scroll_relative(y=pages * max(rows.size.height - 1, 1), animate=False)

    def _remember(self, rule: RememberedRule) -> None:
        self.question.rule = rule
        self.post_message(self.Answered(self.question, rule.decision))

    def _answer(self, option: PermissionOption) -> None:
        chosen: Decision = option
        if not is_distinct(option, self.question.request.options):
            self.notify(
                "The agent cannot distinguish this option from another one: cancelled.",
                severity="warning",
            )
            chosen = "cancel"
        self.post_message(self.Answered(self.question, chosen))


def _spaced(keys: Iterable[str]) -> str:
    return " ".join(key for key in keys if len(key) == 1)


def _rule_label(key: str, rule: RememberedRule, cwd: str) -> Text:
    words = "Allow" if rule.decision == "allow" else "Reject"
    what = relative_title(rule.summary, cwd)
    where = " in this folder" if what.endswith((" *", "/*")) else ""
    shown = what.removesuffix("*").removesuffix(f"{cwd}/").rstrip(" /") if where else what
    return Text.assemble(
        (f" {key} ", "bold reverse"), f" {words}, and remember: {one_line(shown, 100)}{where}"
    )


def _label(key: str, option: PermissionOption) -> Text:
    name = one_line(option.name, 120) or one_line(option.id, 120)
    kind = KINDS.get(option.kind) or one_line(str(option.kind), 40)
    shown = key if len(key) == 1 else " "
    return Text.assemble((f" {shown} ", "bold reverse"), f" {name}", (f"  ({kind})", "dim"))
