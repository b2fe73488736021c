"""What a command of the chat is: one row of the help and of the palette, and what it does."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from accord_chat.view.chat_screen import ChatScreen


class Command(Struct, frozen=True):
    """Something that the user can do with a key, or from the list of commands."""

    name: str
    key: str  # as Textual names it
    shown_key: str
    summary: str
    run: Callable[[ChatScreen], None]
