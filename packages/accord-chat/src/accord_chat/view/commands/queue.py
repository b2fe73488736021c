"""The prompts that wait, to edit or withdraw them; in a shared session also those of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from accord.errors import AccordError
from accord_chat.live_session import LiveSession
from accord_chat.model.prompt_queue import QueuedPrompt
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_terminal.sessions.named import QueuedPrompt as SharedPrompt
from accord_terminal.toolkit.text import one_line

_Entry: TypeAlias = QueuedPrompt | SharedPrompt


def _take_back(screen: ChatScreen) -> None:
    prompt = screen.session.queue.withdraw_last()
    if prompt is not None:
        screen.prompt.edit(prompt)
        screen.session_changed()


def _show_queue(screen: ChatScreen) -> None:
    session = screen.session
    choices = list(_choices(session))
    if not choices:
        screen.notify("No prompt is queued.")
        return

    def chosen(entry: _Entry | None) -> None:
        match entry:
            case QueuedPrompt():
                _edit(screen, session, entry)
            case SharedPrompt():
                _choose_shared(screen, session, entry)
            case None:
                pass

    hint = "Enter takes a prompt back, to edit or drop it · Esc leaves"
    screen.program.push_screen(PickScreen[_Entry]("Queued prompts", choices, hint), chosen)


def _choices(session: LiveSession) -> Iterator[Choice[_Entry]]:
    shared = session.link.shared
    if shared is not None:
        for prompt in shared.queue:
            by = "you" if shared.is_own(prompt) else prompt.by
            yield Choice(one_line(prompt.text, 200), prompt, f"{prompt.state} · {by}")
    for prompt in session.queue:
        yield Choice(_label(prompt), prompt)


def _edit(screen: ChatScreen, session: LiveSession, prompt: QueuedPrompt) -> None:
    taken = session.queue.withdraw(prompt.number)
    if taken is None:
        screen.notify("It was already sent.")
        return
    screen.prompt.edit(taken)
    screen.session_changed()


def _choose_shared(screen: ChatScreen, session: LiveSession, prompt: SharedPrompt) -> None:
    """Edit an own prompt that waits; ask before another one is withdrawn."""
    shared = session.link.shared
    if shared is not None and shared.is_own(prompt) and prompt.state == "queued":
        screen.spawn(_withdraw(screen, session, prompt, edit=session.sent))
        return

    def agreed(yes: bool | None) -> None:
        if yes:
            screen.spawn(_withdraw(screen, session, prompt, edit=None))

    does = "Cancel its turn" if prompt.state == "running" else "Withdraw it"
    choices = [Choice("Leave it", False), Choice(does, True)]
    title = f"{one_line(prompt.by, 30)}: {one_line(prompt.text, 40)}"
    screen.program.push_screen(PickScreen[bool](title, choices), agreed)


async def _withdraw(
    screen: ChatScreen, session: LiveSession, prompt: SharedPrompt, *, edit: QueuedPrompt | None
) -> None:
    shared = session.link.shared
    if shared is None:
        return
    try:
        await shared.withdraw(prompt.prompt_id)
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="warning", markup=False)
        return
    if edit is not None:
        screen.prompt.edit(edit)
    screen.session_changed()


def _label(prompt: QueuedPrompt) -> str:
    count = len(prompt.images)
    images = "" if not count else "[1 image]" if count == 1 else f"[{count} images]"
    return " ".join(filter(None, [one_line(prompt.text, 200), images]))


TAKE_BACK = Command("take_back", "alt+up", "Alt+Up", "Take the last queued prompt back", _take_back)
QUEUE = Command("queue", "f7", "F7", "Show the queued prompts; edit or withdraw one", _show_queue)
