"""The changes of the session: their review, and the file in the user's editor."""

from __future__ import annotations

from accord_chat.model.followed import location_of
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.review_screen import ReviewScreen


def _review(screen: ChatScreen) -> None:
    session = screen.session
    if not session.reviewed_hunks():
        screen.notify("The agent has shown no changes of files.")
        return

    def reviewed(undone: list[str] | None) -> None:
        if undone:  # the agent does not know it
            screen.prompt.add(f"I have undone your changes at {', '.join(undone)}.")
        screen.session_changed()

    screen.program.push_screen(ReviewScreen(session), reviewed)


def _open_editor(screen: ChatScreen) -> None:
    call = screen.session.latest_call()
    screen.open_editor(None if call is None else location_of(call))


REVIEW = Command(
    "review", "f4", "F4", "Review the changes, hunk by hunk: accept or undo each", _review
)
EDITOR = Command(
    "editor",
    "alt+o",
    "Alt+O",
    "Open the file that the agent works on in your editor",
    _open_editor,
)
