"""The queued prompts, to edit or withdraw them."""

from __future__ import annotations

from accord.cli.ask.safe_text import one_line
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen

__all__ = ("QUEUE", "TAKE_BACK")


def _take_back(screen: ChatScreen) -> None:
    prompt = screen.session.queue.withdraw_last()
    if prompt is not None:
        screen.prompt.edit(prompt)
        screen.session_changed()


def _show_queue(screen: ChatScreen) -> None:
    queue = screen.session.queue
    if not queue:
        screen.notify("No prompt is queued.")
        return
    choices = [Choice(one_line(prompt.text, 200), prompt.number) for prompt in queue]

    def taken(number: int | None) -> None:
        prompt = None if number is None else queue.withdraw(number)
        if prompt is not None:
            screen.prompt.edit(prompt)
            screen.session_changed()
        elif number is not None:
            screen.notify("It was already sent.")

    hint = "Enter takes a prompt back, to edit or drop it · Esc leaves"
    screen.program.push_screen(PickScreen[int]("Queued prompts", choices, hint), taken)


TAKE_BACK = Command("take_back", "alt+up", "Alt+Up", "Take the last queued prompt back", _take_back)
QUEUE = Command("queue", "f7", "F7", "Show the queued prompts; edit or withdraw one", _show_queue)
