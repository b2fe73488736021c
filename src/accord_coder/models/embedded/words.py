"""The words of a prompt: bare, quoted, fenced, mentioned or attached, each with its place.

One pass from left to right; a quote that nobody closes is a letter like any other.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ("ATTACHED", "MOST_WORDS", "TooMuch", "Word", "scan")

Kind: TypeAlias = Literal["word", "quoted", "block", "path", "attached", "mark", "item"]

MOST_WORDS = 600  # outside of quotes; who says more wants a language model
ATTACHED = "\ufffc"  # stands in the text where a link or a resource stood
_LONGEST_APOSTROPHE = 300  # characters between single quotes
_CLOSING = {'"': '"', "“": "”", "„": "“", "«": "»", "‹": "›"}
_MARKS = ",;:.?!"


class TooMuch(Exception):
    """The prompt has more words than plain requests have."""


class Word(Struct, frozen=True):
    """One word; `text` is what it means, `start` and `end` are where it stands.

    A mark is punctuation or the end of a line, an item the number or dash of a list.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def low(self) -> str:
        """The text to compare with; only bare words and marks are grammar."""
        bare = self.kind in ("word", "mark", "item")
        return self.text.lower().replace("’", "'") if bare else ""


class _Scanner:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.words: list[Word] = []
        self.unclosed: set[str] = set()

    def add(self, kind: Kind, text: str, end: int) -> None:
        if len(self.words) >= MOST_WORDS:
            raise TooMuch
        self.words.append(Word(kind, text, self.at, end))
        self.at = end

    def run(self) -> list[Word]:
        while self.at < len(self.source):
            char = self.source[self.at]
            if char == "\n":
                self.line()
            elif char.isspace():
                self.at += 1
            elif char == ATTACHED:
                self.add("attached", ATTACHED, self.at + 1)
            elif not (self.item() or self.quoted("word")):
                self.bare()
        return self.words

    def line(self) -> None:
        if self.words and self.words[-1].text != "\n":
            self.add("mark", "\n", self.at + 1)
        else:
            self.at += 1

    def item(self) -> bool:
        """Take the number or the dash that begins a line of a list."""
        if self.words and self.words[-1].text != "\n":
            return False
        end = self.at
        while end < self.at + 3 and self.source[end : end + 1].isdigit():
            end += 1
        marks = ".)" if end > self.at else "-*•+"
        if self.source[end : end + 1] not in tuple(marks):
            return False
        if not self.source[end + 1 : end + 2].isspace():
            return False
        self.add("item", self.source[self.at : end + 1], end + 1)
        return True

    def quoted(self, kind: Kind) -> bool:
        """Take what stands in quotes or between fences."""
        char = self.source[self.at]
        if char == "`":
            return self.code()
        if char in "'‘":
            return self.apostrophes()
        closing = _CLOSING.get(char)
        if closing is None or closing in self.unclosed:
            return False
        end = self.source.find(closing, self.at + 1)
        while end > 0 and self.source[end - 1] == "\\":
            end = self.source.find(closing, end + 1)
        if end < 0:
            self.unclosed.add(closing)
            return False
        text = self.source[self.at + 1 : end].replace("\\" + closing, closing)
        self.add("path" if kind == "path" else "quoted", text, end + 1)
        return True

    def code(self) -> bool:
        start = self.at
        while start < self.at + 7 and self.source[start : start + 1] == "`":
            start += 1
        fence = self.source[self.at : start]
        if len(fence) > 6 or fence in self.unclosed:
            return False
        end = self.source.find(fence, start)
        if end < 0:
            self.unclosed.add(fence)
            return False
        text = self.source[start:end]
        first, newline, body = text.partition("\n")
        if len(fence) >= 3 and newline and " " not in first.strip():
            self.add("block", body, end + len(fence))
        else:
            self.add("quoted", text, end + len(fence))
        return True

    def apostrophes(self) -> bool:
        closing = "’" if self.source[self.at] == "‘" else "'"
        limit = min(len(self.source), self.at + _LONGEST_APOSTROPHE)
        end = self.source.find(closing, self.at + 1, limit)
        while end > 0 and self.source[end + 1 : end + 2].isalnum():
            end = self.source.find(closing, end + 1, limit)
        if end <= self.at + 1:
            return False
        self.add("quoted", self.source[self.at + 1 : end], end + 1)
        return True

    def bare(self) -> None:
        source = self.source
        if source[self.at] == "@" and source[self.at + 1 : self.at + 2].strip():
            self.at += 1
            if self.quoted("path"):
                return
            self.run_of("path")
        else:
            self.run_of("word")

    def run_of(self, kind: Kind) -> None:
        """Take all until the next space, and the punctuation at its end by itself."""
        source, end = self.source, self.at
        while end < len(source) and not source[end].isspace() and source[end] != ATTACHED:
            end += 1
        stop = end
        if source[self.at : end].strip("./\\~") or kind == "path":
            while stop > self.at and self.is_mark(stop):
                stop -= 1
        if source[self.at] == "(" and stop > self.at + 1 and ")" not in source[self.at : stop]:
            self.add("mark", "(", self.at + 1)
        if stop > self.at:
            self.add(kind, source[self.at : stop], stop)
        for place in range(stop, end):
            self.add("mark", source[place], place + 1)

    def is_mark(self, stop: int) -> bool:
        last = self.source[stop - 1]
        return last in _MARKS or (last == ")" and "(" not in self.source[self.at : stop])


def scan(source: str) -> list[Word]:
    """Return the words of a prompt; raise `TooMuch`."""
    return _Scanner(source).run()
