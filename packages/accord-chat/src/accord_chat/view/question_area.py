"""Where the question of an agent is docked, between the conversation and the prompt.

`LoginPanel` asks how to log in; permissions, forms and pages have panels of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from accord.text.excerpt import excerpt
from accord.types.session import OptionChoice
from accord_chat.live_session import LiveSession
from accord_chat.model.questions import (
    FormQuestion,
    LoginQuestion,
    PageQuestion,
    PermissionQuestion,
    Question,
)
from accord_chat.view.form_panel import FormPanel, PagePanel
from accord_chat.view.permission_panel import PermissionPanel
from accord_terminal.toolkit.login import METHOD
from accord_terminal.toolkit.text import one_line, printable

IGNORE_KEYS_S = 0.5  # a key that was meant for the prompt must not choose
MAX_TEXT = 1000  # characters of the agent's message
MAX_COMMAND = 400


class LoginPanel(Vertical):
    """Lists the methods; a number, Enter or a click chooses one, Esc declines."""

    DEFAULT_CSS = """
    LoginPanel {
        height: auto; max-height: 60vh; border: heavy $accent; background: $surface; padding: 0 1;
        border-title-color: $accent; border-title-style: bold; border-subtitle-color: $text-muted;
    }
    LoginPanel > Static { height: auto; max-height: 5; }
    LoginPanel > OptionList {
        height: auto; max-height: 12; border: none; padding: 0; background: transparent;
    }
    LoginPanel > OptionList:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "decline", show=False)]

    class Answered(Message):
        """A method was chosen, or none."""

        def __init__(self, question: LoginQuestion, method_id: str | None) -> None:
            super().__init__()
            self.question = question
            self.values = None if method_id is None else {METHOD: method_id}

    def __init__(self, question: LoginQuestion, _waiting: int) -> None:
        super().__init__()
        self.question = question
        self.ignore_keys_until_s = time.monotonic() + IGNORE_KEYS_S
        self.border_title = Content(f"{one_line(question.agent_name, 40)} needs a login")
        self.border_subtitle = "F10 answers"
        self._choices = [choice for field in question.form.fields for choice in field.choices]

    def compose(self) -> ComposeResult:
        """Make the message and the methods."""
        yield Static(Text(printable(excerpt(self.question.form.message, MAX_TEXT))))
        details = self.question.details
        yield OptionList(
            *(
                Option(_label(number, choice, details.get(choice.value, "")))
                for number, choice in enumerate(self._choices, 1)
            )
        )

    def on_mount(self) -> None:
        """Choose nothing in advance: Enter alone must not log in."""
        self.query_one(OptionList).highlighted = None

    def take_focus(self, *, asked: bool = False) -> None:
        """Take the keyboard; if the user did not ask for that, keys do not answer at once."""
        self.ignore_keys_until_s = 0.0 if asked else time.monotonic() + IGNORE_KEYS_S
        self.query_one(OptionList).focus()

    def on_descendant_focus(self) -> None:
        """Say what the keys do."""
        self.border_subtitle = "1 … 9 choose · Esc does not log in"

    def on_descendant_blur(self) -> None:
        """Say how to come back."""
        self.border_subtitle = "F10 answers"

    def on_key(self, event: events.Key) -> None:
        """Choose by a number; letters are meant for the prompt."""
        character = event.character if event.is_printable else None
        ignores = time.monotonic() < self.ignore_keys_until_s
        if character is not None and character in self._numbers() and not ignores:
            event.stop()
            self._choose(int(character) - 1)
        elif character is not None:
            event.stop()
            self.post_message(PermissionPanel.Mistyped(character))
        elif ignores:
            event.stop()
            event.prevent_default()

    def _numbers(self) -> list[str]:
        return [str(number) for number in range(1, min(len(self._choices), 9) + 1)]

    def _choose(self, at: int) -> None:
        self.post_message(self.Answered(self.question, self._choices[at].value))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Log in by this method."""
        event.stop()
        if time.monotonic() >= self.ignore_keys_until_s:
            self._choose(event.option_index)

    def action_decline(self) -> None:
        """Do not log in."""
        self.post_message(self.Answered(self.question, None))


def _label(number: int, choice: OptionChoice, detail: str) -> Text:
    key = f" {number} " if number < 10 else "   "
    text = Text.assemble((key, "bold reverse"), (f" {one_line(choice.name, 60)}", "bold"))
    if choice.description:
        text.append(f"  {one_line(choice.description.strip(), 200)}")
    text.append(f"\n    {one_line(detail, MAX_COMMAND)}", "dim")
    return text


OFFER_S = 0.375  # between the attempts to give the keyboard to a question

Panel = PermissionPanel | LoginPanel | FormPanel | PagePanel


class QuestionArea(Vertical):
    """Shows the first question of a session; it has no height without one."""

    DEFAULT_CSS = """
    QuestionArea { height: auto; }
    """

    class Ended(Message):
        """The question that had the keyboard is answered, or was taken back."""

    def __init__(self, may_take_keyboard: Callable[[], bool]) -> None:
        super().__init__()
        self._may_take_keyboard = may_take_keyboard
        self._question: Question | None = None

    def show(self, session: LiveSession) -> bool:
        """Show the first question of a session; return whether it is another one than before."""
        question = session.questions[0] if session.questions else None
        if question is self._question:
            return False
        self._question = question
        had_keyboard = self.has_focus_within
        self.remove_children()
        if had_keyboard:  # the next question takes it from the prompt, as the first one did
            self.post_message(self.Ended())
        if question is not None:
            self.call_later(self._mount_panel, question, len(session.questions) - 1)
        return True

    def take_keyboard(self) -> None:
        """Let the user answer."""
        for panel in self.children:
            if isinstance(panel, Panel):
                panel.take_focus(asked=True)

    def fit(self) -> None:
        """Adapt the question to the height of the screen."""
        for panel in self.query(PermissionPanel):
            panel.fit()

    async def _mount_panel(self, question: Question, waiting: int) -> None:
        if question is self._question:
            panel = _panel(question, waiting)
            await self.mount(panel)
            self._offer_keyboard(panel, question)

    def _offer_keyboard(self, panel: Panel, question: Question) -> None:
        """Give the keyboard to a question whenever the user is not typing."""
        if question is not self._question or not panel.is_attached:
            return
        if not panel.has_focus_within and self._may_take_keyboard():
            panel.take_focus()
        self.set_timer(OFFER_S, lambda: self._offer_keyboard(panel, question))

    def on_permission_panel_answered(self, event: PermissionPanel.Answered) -> None:
        """Pass the decision on."""
        event.stop()
        event.question.answer(event.decision)

    def on_login_panel_answered(self, event: LoginPanel.Answered) -> None:
        """Pass the choice on."""
        event.stop()
        event.question.answer(event.values)

    def on_form_panel_answered(self, event: FormPanel.Answered) -> None:
        """Pass the values on."""
        event.stop()
        event.question.answer(event.values)

    def on_page_panel_answered(self, event: PagePanel.Answered) -> None:
        """Pass the decision on."""
        event.stop()
        event.question.answer(event.agreed)


def _panel(question: Question, waiting: int) -> Panel:
    match question:
        case PermissionQuestion():
            return PermissionPanel(question, waiting)
        case LoginQuestion():
            return LoginPanel(question, waiting)
        case FormQuestion():
            return FormPanel(question, waiting)
        case PageQuestion():
            return PagePanel(question, waiting)
