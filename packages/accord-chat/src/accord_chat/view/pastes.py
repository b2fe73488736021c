"""Pasted text, kept apart from keys in what a terminal sends.

Textual looks for keys in what was pasted: escape sequences in it would become keys and text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from msgspec import Struct

from accord.text.excerpt import visible

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
