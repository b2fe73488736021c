"""The interface of the views of `accord ask`: at a terminal, in a pipe, or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.events import Event
    from accord.client.session import ClientSession, ClientTurn


class TurnView(Protocol):
    """Shows one turn."""

    def show_starting(self, name: str) -> None:
        """Show that the agent of this name is starting."""
        ...

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show the session."""
        ...

    def show_event(self, event: Event) -> None:
        """Show an event of the turn."""
        ...

    def show_stderr(self, line: str) -> None:
        """Show a line that the agent wrote to stderr."""
        ...

    def show_cancelling(self) -> None:
        """Show that the user has cancelled the turn."""
        ...

    def show_warning(self, message: str) -> None:
        """Show a warning of this program."""
        ...

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Finish the output: the user does not wait for the end of the turn."""
        ...

    def turn_ended(self, turn: ClientTurn) -> None:
        """Finish the output of a turn that has ended."""
        ...

    def show_error(self, message: str, code: int | None) -> None:
        """Show that the run failed; `code` is that of a JSON-RPC error."""
        ...

    def close(self) -> None:
        """Finish the output and restore the terminal. May be called twice."""
        ...
