"""Searches text in the lines of a recording, in any case."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from accord.text import lenient_json

_BODY = b',"bytes":'  # before it are the fields that Accord adds to a message
_RAW = re.compile(rb',"bytes":\d+,"raw":"[^"\\]*(?:\\.[^"\\]*)*"')


class TextSearch:
    """A text that is searched in the params, results, errors and invalid frames of lines.

    It is found as it is written in JSON, and as it reads: `say "hi"` finds `say \\"hi\\"`.
    """

    def __init__(self, text: str) -> None:
        self.text: str = text.casefold()
        written = lenient_json.dumps(text)[1:-1].decode("utf-8", "surrogatepass")
        forms = list(dict.fromkeys((text, written)))
        # The lines get small letters of ASCII; other letters are alternatives in a pattern.
        self._plain = [form.lower().encode("utf-8", "surrogatepass") for form in forms]
        self._is_caseless = not re.search("[A-Za-z]", text)
        self._pattern: re.Pattern[bytes] | None = None
        self._letter: list[bytes] = []  # how one letter is written that is not ASCII
        if not text.isascii():
            self._pattern = re.compile(b"|".join(map(_alternatives, forms)))
            self._letter = _written(next(letter for letter in text if not letter.isascii()))

    def place_in(self, line: bytes) -> tuple[int, int] | None:
        """Return where the body of one line has the text first: the bytes from and to.

        The params are preferred to the frame as it was sent, in which they are escaped once more.
        """
        lower = line.lower()
        body = max(line.find(_BODY), 0)
        raw = _RAW.match(line, body)
        found = None if raw is None else self._place(lower, raw.end())
        return found or self._place(lower, body)

    def _place(self, lower: bytes, start: int) -> tuple[int, int] | None:
        if self._pattern is not None:
            found = self._pattern.search(lower, start)
            return None if found is None else found.span()
        places = [(lower.find(form, start), len(form)) for form in self._plain]
        return min(((at, at + size) for at, size in places if at >= 0), default=None)

    def rows_in(self, lines: Lines) -> list[int]:
        """Return the rows of the lines that have the text, in order."""
        block = lines.block
        if self._pattern is None:
            lower = block if self._is_caseless else block.lower()
            return _rows_with(lines, lower, self._plain)
        # A pattern is slow: it is applied where one of its letters is.
        forms = self._letter
        if block.isascii():
            has_escapes = b"\\u" in block
            forms = [form for form in forms if has_escapes or not form.startswith(b"\\u")]
            forms = [form for form in forms if form.isascii()]
        if not forms:
            return []
        lower = block.lower()
        pattern = self._pattern

        def search(start: int, end: int) -> int:
            found = pattern.search(lower, start, end)
            return found.start() if found else -1

        return [row for row in _rows_with(lines, lower, forms) if lines.has(row, search)]


class Lines:
    """Lines of a recording that follow each other: `block` has them and what is between.

    Those of the rows from `first` to `end` begin at `offsets` in the recording.
    """

    def __init__(self, block: bytes, offsets: Sequence[int], first: int, end: int) -> None:
        self.block: bytes = block
        self._offsets = offsets
        self._first = first
        self._end = end
        self._base = offsets[first]

    @property
    def rows(self) -> range:
        """The rows of the lines."""
        return range(self._first, self._end)

    def line(self, row: int) -> bytes:
        """Return a line, without its line end."""
        start, stop = self._span(row)
        return self.block[start:stop].partition(b"\n")[0]

    def rows_where(self, find: Callable[[int, int], int]) -> list[int]:
        """Return the rows of the lines that have in their body what `find` finds."""
        block, end, rows = self.block, len(self.block), list[int]()
        at, row = find(0, end), self._first
        while at >= 0:
            row = bisect_right(self._offsets, self._base + at, row, self._end) - 1
            start, stop = self._span(row)
            body = block.find(_BODY, start, stop) + len(_BODY)
            if at < body:
                at = find(body, stop)
            # A line that is not a record may follow: it is skipped.
            if at >= 0 and block.find(b"\n", start, at) < 0:
                rows.append(row)
            at = find(stop, end)
        return rows

    def has(self, row: int, find: Callable[[int, int], int]) -> bool:
        """Return whether `find` finds something in the body of a line."""
        start, stop = self._span(row)
        body = self.block.find(_BODY, start, stop) + len(_BODY)
        at = find(body, stop)
        return at >= 0 and self.block.find(b"\n", start, at) < 0

    def _span(self, row: int) -> tuple[int, int]:
        start = self._offsets[row] - self._base
        is_last = row + 1 == self._end
        return start, len(self.block) if is_last else self._offsets[row + 1] - self._base


def _rows_with(lines: Lines, lower: bytes, forms: Sequence[bytes]) -> list[int]:
    """Return the rows of the lines that have one of the forms; `lower` has what is searched."""
    rows: set[int] = set()
    for form in forms:

        def find(start: int, end: int, form: bytes = form) -> int:
            return lower.find(form, start, end)

        rows.update(lines.rows_where(find))
    return sorted(rows)


def _alternatives(form: str) -> bytes:
    """Return a pattern for a text in JSON, of which letters may be escaped."""
    parts: list[bytes] = []
    for letter in form:
        if letter.isascii():
            parts.append(re.escape(letter.lower().encode()))
        else:
            parts.append(b"(?:" + b"|".join(map(re.escape, _written(letter))) + b")")
    return b"".join(parts)


def _written(letter: str) -> list[bytes]:
    """Return how a letter may be written in JSON, in any case."""
    cases = dict.fromkeys((letter, letter.lower(), letter.upper()))
    texts = [case.encode("utf-8", "surrogatepass").lower() for case in cases]
    return texts + [_escaped(case).encode() for case in cases]


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
