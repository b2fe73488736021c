"""Where the user types: a text that grows with its lines, and sends with Enter."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import EditResult
from textual.document._edit import Edit
from textual.message import Message
from textual.widgets import TextArea

from accord.text.excerpt import visible
from accord_chat.model.prompts import Attachment, dropped_images
from accord_chat.steering import Sending

DROP_S = 2.0  # to look at pasted paths, which can be on a slow network
SENDING_KEYS: dict[str, Sending | None] = {  # None: what Enter does is chosen elsewhere
    "enter": None,
    "alt+s": "steer",
    "alt+q": "queue",
    "alt+c": "cancel",
}
NEW_LINE_KEYS = frozenset({"shift+enter", "ctrl+j", "alt+enter", "ctrl+enter"})
# With them a text could be read in another order than it is sent in.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
LIST_KEYS = {"up": -1, "down": 1}
KEYS_OF_COMPLETIONS = frozenset({*LIST_KEYS, "tab", "enter", "escape"})

CompletionAction: TypeAlias = Literal["move", "accept", "close", "open"]


class Completer(Protocol):
    """The list of completions, as the prompt uses it: at once, between two keys."""

    async def catch_up(self) -> None:
        """Let the list be that of the text as it is now."""
        ...

    def complete(self, action: CompletionAction, step: int = 0) -> None:
        """Move in the list, choose what is marked, close it, or open it."""
        ...


class Composer(TextArea):
    """The prompt that is being written."""

    DEFAULT_CSS = """
    Composer {
        height: auto;
        max-height: 8;
        min-height: 1;
        padding: 0;
        background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+underscore,alt+z", "undo", show=False),
    ]

    class Submitted(Message):
        """The user sends the text."""

        def __init__(self, text: str, sending: Sending | None = None) -> None:
            super().__init__()
            self.text = text
            self.sending: Sending | None = sending  # while the agent works

    class Moved(Message):
        """The text or the cursor has changed."""

    class Recalled(Message):
        """The user wants the previous prompt (-1) or the next one (1)."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    class Dropped(Message):
        """Images whose paths were pasted, or why one of them cannot be attached."""

        def __init__(self, text: str, images: Sequence[Attachment], problem: str = "") -> None:
            super().__init__()
            self.text = text
            self.images = images
            self.problem = problem

    class Pasting(Message):
        """The user presses the key that pastes: the clipboard may have an image."""

    class Emptied(Message):
        """The user deletes in front of an empty text."""

    class Scrolled(Message):
        """The user scrolls the conversation while typing."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, completer: Completer) -> None:
        self._completer = completer
        super().__init__(
            id="composer",
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False
        self.is_completing = False  # the list of completions is open
        self.enter_completes = True  # the marked one is not typed in full
        self.last_key_s = float("-inf")

    @property
    def line_before_cursor(self) -> str:
        """The text of the line up to the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    @property
    def place(self) -> tuple[tuple[int, int], str]:
        """What completions depend on: the cursor, and the text before it."""
        return self.cursor_location, self.line_before_cursor

    def replace_before_cursor(self, start: int, text: str) -> None:
        """Replace the line from a column to the cursor."""
        row, column = self.cursor_location
        done = self.replace(text, (row, start), (row, column))
        self.move_cursor(done.end_location)

    def set_text(self, text: str) -> None:
        """Replace the text and put the cursor at its end."""
        self.load_text(_spelt(text))
        self.move_cursor(self.document.end)

    def edit(self, edit: Edit) -> EditResult:
        """Edit the text; what changes the writing direction is spelt."""
        edit.text = _spelt(edit.text)
        return super().edit(edit)

    async def on_key(self, event: events.Key) -> None:
        """Send, complete, recall or scroll; other keys edit the text.

        Everything that changes the text happens here, in the order of the keys: Textual runs the
        bindings of a widget later, and while it is busy, letters that follow would overtake them.
        """
        self.last_key_s = time.monotonic()
        if event.key in NEW_LINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
            return
        if event.key in KEYS_OF_COMPLETIONS:
            await self._completer.catch_up()
            if self._completes(event.key):
                event.stop()
                event.prevent_default()
                return
        message = self._message_for(event.key)
        bindings = self._bindings.key_to_bindings.get(event.key)
        if message is None and not bindings:
            if event.key.startswith("alt+"):
                event.prevent_default()  # terminals send its letter, too
            return
        event.stop()
        event.prevent_default()
        if message is not None:
            self.post_message(message)
            if isinstance(message, self.Submitted):
                self.set_text("")
        elif bindings:
            await self.run_action(bindings[0].action)

    async def on_paste(self, event: events.Paste) -> None:
        """Attach images whose paths are pasted; keys that follow wait until it is known."""
        try:
            async with asyncio.timeout(DROP_S):
                images = await asyncio.to_thread(dropped_images, event.text)
        except ValueError as error:
            message = self.Dropped(event.text, (), str(error))
        except (OSError, TimeoutError):
            return
        else:
            if not images:
                return
            message = self.Dropped(event.text, images)
        event.stop()
        event.prevent_default()
        self.post_message(message)

    def submit(self, sending: Sending) -> None:
        """Send the text, although another part of the screen has the keyboard."""
        self.post_message(self.Submitted(self.text, sending))
        self.set_text("")

    def action_paste(self) -> None:
        """Paste an image of the clipboard, or text."""
        self.post_message(self.Pasting())

    def paste_text(self) -> None:
        """Paste the text that was copied last."""
        super().action_paste()

    def _completes(self, key: str) -> bool:
        """Use a key for the completions; return whether it has a meaning there."""
        if key in LIST_KEYS and self.is_completing:
            self._completer.complete("move", LIST_KEYS[key])
        elif key == "tab":
            self._completer.complete("accept" if self.is_completing else "open")
        elif key == "enter" and self.is_completing and self.enter_completes:
            self._completer.complete("accept")
        elif key == "escape" and self.is_completing:
            self._completer.complete("close")
        else:
            return False
        return True

    def _message_for(self, key: str) -> Message | None:
        match key:
            case _ if key in SENDING_KEYS:
                return self.Submitted(self.text, SENDING_KEYS[key])
            case "backspace" if not self.text:
                return self.Emptied()
            case "pageup" | "pagedown":
                return self.Scrolled(-1 if key == "pageup" else 1)
            case "up" if self.cursor_at_first_line:
                return self.Recalled(-1)
            case "down" if self.cursor_at_last_line:
                return self.Recalled(1)
            case _:
                return None

    def on_text_area_changed(self) -> None:
        """Report a change."""
        self.post_message(self.Moved())

    def on_text_area_selection_changed(self) -> None:
        """Report a movement of the cursor."""
        self.post_message(self.Moved())


def _spelt(text: str) -> str:
    return _DIRECTION.sub(lambda found: visible(found[0]), text)
