"""The values of all options of a session in one list: modes, models and others."""

from __future__ import annotations

from collections.abc import Iterator

from accord.types.session import SelectOption
from accord_chat.live_session import LiveSession
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen


def _choose_option(screen: ChatScreen) -> None:
    session = screen.session
    choices = list(_choices(session))
    if not choices:
        screen.notify("The agent has no modes, models or options.")
        return

    def chosen(value: tuple[str, str | bool] | None) -> None:
        if value is not None:
            screen.spawn(session.set_option(*value))

    picker = PickScreen[tuple[str, "str | bool"]]("Mode, model and options", choices)
    screen.program.push_screen(picker, chosen)


def _choices(session: LiveSession) -> Iterator[Choice[tuple[str, str | bool]]]:
    for option in session.transcript.options:
        if isinstance(option, SelectOption):
            for choice in option.choices:
                yield Choice(
                    f"{option.name}: {choice.name}",
                    (option.id, choice.value),
                    " · ".join(filter(None, [choice.group, choice.description])),
                    choice.value == option.value,
                )
        else:
            for word, value in (("on", True), ("off", False)):
                label, detail = f"{option.name}: {word}", option.description or ""
                yield Choice(label, (option.id, value), detail, value is option.value)


def _next_mode(screen: ChatScreen) -> None:
    session = screen.session
    following = session.next_mode()
    if following is not None:
        option, value = following
        screen.spawn(session.set_option(option.id, value))


OPTIONS = Command(
    "options", "f2", "F2", "Choose the mode, the model and other options", _choose_option
)
NEXT_MODE = Command("next_mode", "shift+tab", "Shift+Tab", "Switch to the next mode", _next_mode)
