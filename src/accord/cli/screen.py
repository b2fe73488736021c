"""Where a turn of `accord ask` is shown: at a terminal, in a pipe, or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn

__all__ = ("LazyView", "TurnView")


class TurnView(Protocol):
    """Where a turn is shown."""

    def show_starting(self, name: str) -> None:
        """The agent of this name is starting."""
        ...

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """The session is open."""
        ...

    async def ask_permission(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        ...

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Let the user fill in a form; None when they decline."""
        ...

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Let the user open a page, or not."""
        ...

    def decline_question(self) -> bool:
        """Decline what the user is asked just now; tell whether there was something."""
        ...

    def show_event(self, event: Event) -> None:
        """Something happened."""
        ...

    def show_stderr(self, line: str) -> None:
        """The agent wrote this line to stderr."""
        ...

    def show_cancelling(self) -> None:
        """The user cancels the turn."""
        ...

    def show_warning(self, message: str) -> None:
        """Something is not as the user expects."""
        ...

    def user_quit(self, turn: ClientTurn | None) -> None:
        """The user does not wait for the end."""
        ...

    def turn_ended(self, turn: ClientTurn) -> None:
        """The turn is over."""
        ...

    def show_error(self, message: str, code: int | None) -> None:
        """It came to no end."""
        ...

    def close(self) -> None:
        """Leave everything tidy, whatever happened."""
        ...


class LazyView:
    """The screen, which is imported when it is first needed."""

    def __init__(
        self,
        *,
        as_json: bool,
        quiet: bool = False,
        thoughts: bool = False,
        verbose: bool = False,
    ) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._thoughts = thoughts
        self._verbose = verbose
        self._view: TurnView | None = None
        self._stderr_line = ""  # before there was a screen

    def get(self) -> TurnView:
        if self._view is None:
            if self._as_json:
                from accord.cli.json_lines import JsonLinesView

                self._view = JsonLinesView()
            elif self._quiet:
                from accord.cli.answer_only import AnswerOnlyView

                self._view = AnswerOnlyView()
            else:
                from accord.cli.rich_screen import RichView

                self._view = RichView(thoughts=self._thoughts, verbose=self._verbose)
        return self._view

    def show_starting(self, name: str) -> None:
        self.get().show_starting(name)
        if self._stderr_line and not self._verbose:
            self.get().show_stderr(self._stderr_line)

    def show_stderr(self, line: str) -> None:
        if self._view is not None or self._verbose:
            self.get().show_stderr(line)
        self._stderr_line = line

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        return await self.get().ask_form(form)

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        return await self.get().ask_url(page)

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
