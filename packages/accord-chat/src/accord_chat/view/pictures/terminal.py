"""The terminal as it shows graphics: asked once, when the first image is shown large."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import Callable, Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from accord_chat.view.alt_keys import with_plain_alt_keys
from accord_chat.view.pastes import Paste, PasteFilter
from accord_chat.view.pictures.terminal_replies import Replies, TerminalGraphics, question

if sys.platform != "win32":
    import fcntl
    import termios

    from textual.drivers import linux_driver


MOUSE = "\x1b[<"  # what is sent while it moves
ANSWER_S = 0.5  # a later answer counts for the next image

_replies = Replies()  # of the terminal of this process
_told_of_keys: list[Callable[[], None]] = []  # in the thread that reads


class InputParser(XTermParser):
    """Reads what a terminal sends: pasted texts, answers to questions, and keys.

    Textual would take the answers for keys, some keys for text, and a part of a paste for keys.
    """

    def __init__(self, debug: bool = False) -> None:  # as Textual calls it
        super().__init__(debug)
        self._pastes = PasteFilter()

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of what has come; an empty text is the end."""
        if not data:
            yield from super().feed(data)
        elif not data.startswith(MOUSE):
            for told in _told_of_keys:
                told()
        for part in self._pastes.take(data):
            if isinstance(part, Paste):
                yield events.Paste(part.text)
            else:
                yield from self._keys(part)

    def tick(self) -> Iterable[Message]:
        """Yield the keys that nothing follows."""
        if overdue := self._pastes.overdue():
            yield from self._keys(overdue)
            self._timeout_time = self._timeout_time and 0.0  # it has waited already
        yield from super().tick()

    def _keys(self, data: str) -> Iterable[Message]:
        if keys := _replies.take(data):
            yield from super().feed(with_plain_alt_keys(keys))


if sys.platform != "win32":
    # The driver of Textual has no other place for what it does not know.
    setattr(linux_driver, "XTermParser", InputParser)  # noqa: B010  # not its own name


class Terminal:
    """Where graphics are written; `write` passes text to the terminal as it is.

    `on_typed` is called in another thread as soon as the user types, before the key is handled.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        is_real: bool,
        on_typed: Callable[[], None] | None = None,
    ) -> None:
        self.write = write
        if is_real and on_typed is not None:
            _told_of_keys[:] = [on_typed]
        can_ask = is_real and sys.platform != "win32"
        self._question = question(os.environ) if can_ask else None

    async def graphics(self) -> TerminalGraphics:
        """Return what the terminal can show; wait a short time for its first answer."""
        if self._question is not None:
            loop, answered = asyncio.get_running_loop(), asyncio.Event()
            _replies.expect(lambda: loop.call_soon_threadsafe(answered.set))
            self.write(self._question)
            self._question = None
            try:
                async with asyncio.timeout(ANSWER_S):
                    await answered.wait()
            except TimeoutError:
                pass
        return _with_cell_size(_replies.graphics)


def _with_cell_size(graphics: TerminalGraphics) -> TerminalGraphics:
    """Add the size of a cell as the system knows it, if the terminal has not said it."""
    if graphics.protocol is None or graphics.cell_width is not None or sys.platform == "win32":
        return graphics
    try:
        answer = fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return graphics
    lines, columns, width, height = struct.unpack("HHHH", answer)
    if not (lines and columns and width // columns and height // lines):
        return graphics
    return TerminalGraphics(graphics.protocol, width // columns, height // lines)
