"""Shows only the answer of a turn: `accord ask --quiet`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from accord.text.excerpt import hidden_removed

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.events import Event
    from accord.client.session import ClientSession, ClientTurn


class AnswerOnlyView:
    """Writes the text of the answer to stdout when the turn has ended."""

    def __init__(self, program: str) -> None:
        self._program = program

    def show_starting(self, name: str) -> None:
        """Write nothing."""

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Write nothing."""

    def show_event(self, event: Event) -> None:
        """Write nothing."""

    def show_stderr(self, line: str) -> None:
        """Write nothing; a failure reports the last lines."""

    def show_cancelling(self) -> None:
        """Write it to stderr."""
        self.show_warning("cancelling; press Ctrl-C again to quit")

    def show_warning(self, message: str) -> None:
        """Write it to stderr."""
        print(f"{self._program}: {message}", file=sys.stderr, flush=True)

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write the answer so far."""
        if turn is not None:
            self.turn_ended(turn)

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write the answer; at a terminal, without control characters."""
        text = turn.text if not sys.stdout.isatty() else hidden_removed(turn.text)
        if text:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()

    def show_error(self, message: str, code: int | None) -> None:
        """Write nothing; the caller reports the error on stderr."""

    def close(self) -> None:
        """Write nothing."""
