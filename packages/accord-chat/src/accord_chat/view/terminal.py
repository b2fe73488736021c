"""What a terminal sends and shows: pasted texts, keys, and graphics.

Textual reads the input through `InputParser`, which takes three things out before keys are found:
pasted texts (escape sequences in them would become keys), answers to questions about graphics, and
Alt with a letter or a digit. `Terminal` asks for graphics once, when an image is first shown large.
"""

from __future__ import annotations

import asyncio
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from accord.text.excerpt import visible

if sys.platform != "win32":
    import fcntl
    import termios

    from textual.drivers import linux_driver

# Answers about graphics, among what the user types.

Protocol: TypeAlias = Literal["kitty", "sixel"]

KITTY_ID = 4_012_001  # of the image in the question; nothing else has this number
_SIXEL = "4"  # among the attributes of a device
_MAX_HELD = 256
_REPLY = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]*)\x1b\\"
    r"|\x1b\[6;(?P<height>\d{1,5});(?P<width>\d{1,5})t"
    r"|\x1b\[\?(?P<attributes>[\d;]*)c"
)
_UNFINISHED = re.compile(r"\x1b(?:_(?:G[^\x1b]*\x1b?)?|\[\?[\d;]*|\[6;[\d;]*)$")


class TerminalGraphics(Struct, frozen=True):
    """What a terminal can show."""

    protocol: Protocol | None = None
    cell_width: int | None = None  # pixels
    cell_height: int | None = None


def question(environment: Mapping[str, str]) -> str | None:
    """Return what asks the terminal; None if this terminal would show the question itself.

    The last part is answered by every terminal, so nothing has to wait for what is not answered.
    """
    name = environment.get("TERM", "")
    if name in ("", "dumb", "linux"):
        return None
    cell_size, attributes = "\x1b[16t", "\x1b[c"
    # tmux and screen take this for a title.
    if environment.get("TMUX") or name.startswith(("tmux", "screen")):
        return cell_size + attributes
    if environment.get("TERM_PROGRAM") == "Apple_Terminal":
        return cell_size + attributes
    kitty = f"\x1b_Gi={KITTY_ID},s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
    return kitty + cell_size + attributes


class Replies:
    """Collects the answers, which may come in pieces, between keys, and late."""

    def __init__(self) -> None:
        self.graphics = TerminalGraphics()
        self.is_complete = False
        self._on_complete: Callable[[], object] | None = None
        self._held = ""

    def expect(self, on_complete: Callable[[], object]) -> None:
        """Take answers out of the input from now on; `on_complete` is called at the last one."""
        self._on_complete = on_complete

    def take(self, data: str) -> str:
        """Return the input without answers."""
        if self._on_complete is None:
            return data
        data, self._held = self._held + data, ""
        kept = _REPLY.sub(self._note, data)
        unfinished = _UNFINISHED.search(kept)
        if unfinished is not None and not self.is_complete and len(unfinished[0]) < _MAX_HELD:
            self._held = unfinished[0]
            kept = kept[: unfinished.start()]
        return kept

    def _note(self, reply: re.Match[str]) -> str:
        now = self.graphics
        if (kitty := reply["kitty"]) is not None:
            if f"i={KITTY_ID}" in kitty.partition(";")[0].split(",") and kitty.endswith(";OK"):
                self.graphics = TerminalGraphics("kitty", now.cell_width, now.cell_height)
        elif (attributes := reply["attributes"]) is not None:
            if now.protocol is None and _SIXEL in _further(attributes.split(";")):
                self.graphics = TerminalGraphics("sixel", now.cell_width, now.cell_height)
            self.is_complete = True
            if self._on_complete is not None:
                self._on_complete()
        elif int(reply["width"]) and int(reply["height"]):
            self.graphics = TerminalGraphics(
                now.protocol, int(reply["width"]), int(reply["height"])
            )
        return ""


def _further(attributes: Iterable[str]) -> list[str]:
    """Return the attributes after the first, which is the class of the terminal."""
    return list(attributes)[1:]


# Pasted texts.

START, END = "\x1b[200~", "\x1b[201~"
ESCAPE_S = 0.1  # after it, Escape is a key and not the beginning of something
MAX_KEY = 2  # characters of the beginning that could be a key: Escape, and Alt with a bracket
_PART_OF_START = re.compile(r"\x1b(?:\[(?:2(?:00?)?)?)?$")
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Paste(Struct, frozen=True):
    """A text that was pasted."""

    text: str


class PasteFilter:
    """Splits what a terminal sends, in pieces of any size, into keys and pasted texts."""

    def __init__(self) -> None:
        self._held = ""  # what may be the beginning of a paste, or of its end
        self._held_since_s = 0.0
        self._pasted: list[str] | None = None  # while something is being pasted

    def take(self, data: str) -> Iterator[str | Paste]:
        """Yield the keys and the pasted texts that are complete."""
        data, self._held = self._held + data, ""
        while data:
            if self._pasted is None:
                keys, start, data = data.partition(START)
                if start:
                    self._pasted = []
                else:
                    keys = self._hold(keys)
                if keys := keys.replace(END, ""):
                    yield keys
                continue
            end = _end(data)
            if end < 0:
                at = max(len(data) - len(END) + 1, 0)
                self._pasted.append(data[:at])
                self._held = data[at:]
                return
            text = "".join([*self._pasted, data[:end]])
            self._pasted, data = None, data[end + len(END) :]
            yield Paste(pasted_text(text))

    def overdue(self) -> str:
        """Return held keys, if nothing has followed them for some time."""
        is_key = self._pasted is None and 0 < len(self._held) <= MAX_KEY
        if not is_key or time.monotonic() < self._held_since_s + ESCAPE_S:
            return ""
        keys, self._held = self._held, ""
        return keys

    def _hold(self, keys: str) -> str:
        part = _PART_OF_START.search(keys)
        if part is None:
            return keys
        self._held, self._held_since_s = part[0], time.monotonic()
        return keys[: part.start()]


def _end(data: str) -> int:
    """Return where the pasted text ends, -1 if more is to come.

    It may contain the sequence of the end itself: the last one that arrived counts, or the first
    one that the next paste follows at once.
    """
    at = data.find(END)
    while at >= 0 and not data.startswith(START, at + len(END)):
        following = data.find(END, at + len(END))
        if following < 0:
            break
        at = following
    return at


def pasted_text(text: str) -> str:
    """Return a pasted text without colours, with hidden characters spelt and line ends of POSIX."""
    text = text.replace(START, "").replace(END, "")
    text = _COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return visible(text)


# Alt with a letter or a digit, from terminals without the protocol of Kitty: Textual waits for more
# after Escape and a letter, so that two such keys which arrive together become text. It also reads
# Escape and a digit as a character of the keyboard of a Mac.

_ALT_KEY = re.compile("\x1b([a-z0-9])")


def with_plain_alt_keys(data: str) -> str:
    """Return what a terminal has sent with the keys in the form of Kitty, which is unambiguous."""
    return _ALT_KEY.sub(lambda found: f"\x1b[{ord(found[1])};3u", data)


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
