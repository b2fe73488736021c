"""Where the question of an agent is docked, between the conversation and the prompt."""

from __future__ import annotations

from collections.abc import Callable

from textual.containers import Vertical
from textual.message import Message

from accord_chat.live_session import LiveSession
from accord_chat.model.questions import (
    FormQuestion,
    LoginQuestion,
    PageQuestion,
    PermissionQuestion,
    Question,
)
from accord_chat.view.form_panel import FormPanel, PagePanel
from accord_chat.view.login_panel import LoginPanel
from accord_chat.view.permission_panel import PermissionPanel

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
