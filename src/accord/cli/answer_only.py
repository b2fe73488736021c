"""A turn of `accord ask --quiet`: the answer, and nothing else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from accord.cli.safe_text import printable

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn

__all__ = ("AnswerOnlyView",)


class AnswerOnlyView:
    """Writes the text of the answer to stdout when the turn is over; asks nothing."""

    def show_starting(self, name: str) -> None:
        """Write nothing."""

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Write nothing."""

    async def ask_permission(self, request: PermissionRequest) -> Decision | None:
        """Leave the request undecided."""
        return None

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Decline; no forms are offered."""
        return None

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Decline; no pages are offered."""
        return False

    def decline_question(self) -> bool:
        """Nothing is asked."""
        return False

    def show_event(self, event: Event) -> None:
        """Write nothing."""

    def show_stderr(self, line: str) -> None:
        """Leave stderr to the agent's end."""

    def show_cancelling(self) -> None:
        """Write it where no answer is."""
        self.show_warning("cancelling; press Ctrl-C again to quit")

    def show_warning(self, message: str) -> None:
        """Write it where no answer is."""
        print(f"accord ask: {message}", file=sys.stderr, flush=True)

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write what there is of the answer."""
        if turn is not None:
            self.turn_ended(turn)

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write the answer; at a terminal, without what the terminal would obey."""
        text = turn.text if not sys.stdout.isatty() else printable(turn.text)
        if text:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()

    def show_error(self, message: str, code: int | None) -> None:
        """Leave it to the line on stderr."""

    def close(self) -> None:
        """Nothing is open."""
