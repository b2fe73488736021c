"""Cuts streamed text into sentences and lines, so that a listener does not hear half a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_WAITING = 1000  # characters; a longer piece is cut at a space
# At least two letters before the dot: neither "e.g." nor the number of a list ends a sentence.
_END = re.compile(r"(?:[^\W\d_]{2}|[)\]\"'`*])[.!?…]+[)\]\"'`*]*\s|[。！？]\s?")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([^`]*)$")


class Sentences:
    """The text of one message as it grows."""

    def __init__(self) -> None:
        self._rest = ""
        self._is_line_start = True
        self._fence = ""  # that a block of code began with

    @property
    def has_rest(self) -> bool:
        """Whether something waits for its end."""
        return bool(self._rest.strip())

    def feed(self, text: str) -> Iterator[str]:
        """Yield what is complete with this text."""
        *lines, self._rest = (self._rest + text).replace("\r\n", "\n").split("\n")
        for line in lines:
            yield from self._line(line)
        if self._fence or (self._is_line_start and self._rest.lstrip()[:1] in ("`", "~")):
            return
        *pieces, self._rest = _cut(self._rest)
        if pieces:
            self._is_line_start = False
        yield from (piece.strip() for piece in pieces if piece.strip())

    def end(self) -> Iterator[str]:
        """Yield the rest."""
        rest, self._rest = self._rest, ""
        if rest.strip():
            yield from self._line(rest)
        self._is_line_start = True

    def _line(self, line: str) -> Iterator[str]:
        fence = _FENCE.match(line) if self._is_line_start else None
        self._is_line_start = True
        if fence is not None and not self._fence:
            self._fence = fence[1]
            yield f"Code, {fence[2].strip()}:" if fence[2].strip() else "Code:"
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
            yield "End of code."
        elif self._fence:
            yield line
        else:
            yield from (piece.strip() for piece in _cut(line) if piece.strip())


def _cut(line: str) -> Iterator[str]:
    """Yield the sentences of a line, none of them too long; the last one may be unfinished."""
    start = 0
    for found in _END.finditer(line):
        yield from _short(line[start : found.end()])
        start = found.end()
    yield from _short(line[start:])


def _short(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > MAX_WAITING:
        space = sentence.rfind(" ", start, start + MAX_WAITING)
        end = space + 1 if space > start else start + MAX_WAITING
        yield sentence[start:end]
        start = end
    yield sentence[start:]
