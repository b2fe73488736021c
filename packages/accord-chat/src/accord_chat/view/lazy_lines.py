"""Lines that are made when they are shown: rows, and long Markdown texts that grow.

A text of 10 MB has 150,000 lines, and a line for Textual takes about 2 KB and a tenth of a
millisecond. Users of these classes know how many lines there are, and read those on the screen.
Of a Markdown text, the number is an estimate for the parts that have not been shown: `measure`
renders those near the window, and returns by how much the lines above it have moved.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from msgspec import Struct
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from accord_terminal.toolkit.markdown import MAX_COLUMNS, block_starts, markdown_segments
from accord_terminal.toolkit.terminal_output import fold_row, fold_words, row_height
from accord_terminal.toolkit.text import Row, printable

# Rich writes code on black, which dark letters do not have in a light theme.
_console = Console(
    width=200,
    color_system="truecolor",
    force_terminal=True,
    markup=False,
    emoji=False,
    theme=Theme({"markdown.code": "bold cyan"}),
)
_plain = Style()


def blank() -> Strip:
    """Return an empty line."""
    return Strip([])


def row_strips(rows: Iterable[Row], width: int) -> list[Strip]:
    """Return rows as lines of at most this width."""
    return [Strip(_segments(text)) for row in rows for text in fold_row(row, max(width, 1))]


def text_strips(texts: Iterable[Text]) -> list[Strip]:
    """Return texts as lines, which are not folded."""
    return [Strip(_segments(text)) for text in texts]


def ansi_strip(line: str) -> Strip:
    """Return a line with the styles of a terminal; other control characters must be removed."""
    return Strip(_segments(Text.from_ansi(line, no_wrap=True, end="")))


def indent(strips: Iterable[Strip], lead: str, style: str = "") -> list[Strip]:
    """Return lines with a text before each."""
    first = Segment(lead, Style.parse(style) if style else None)
    return [Strip([first, *strip]) for strip in strips]


def _segments(text: RenderableType) -> list[Segment]:
    return [part for part in _console.render(text) if part.text != "\n"]


def _render(renderable: RenderableType, width: int) -> list[list[Segment]]:
    options = _console.options.update(width=width, height=None)
    return _console.render_lines(renderable, options, pad=False)


def markdown(text: str, width: int) -> list[Strip]:
    """Return a Markdown text as lines; if rendering would lose text, its source."""
    lines = markdown_segments(_render, text, width)
    if lines is None:
        return folded(text, width)
    strips = [_without_trailing_space(line) for line in lines]
    full = [number for number, strip in enumerate(strips) if strip.text.strip()]
    return strips[full[0] : full[-1] + 1] if full else []


def _without_trailing_space(line: list[Segment]) -> Strip:
    parts = [part for part in line if not part.control]
    while parts and not parts[-1].text.strip(" \n") and not _has_background(parts[-1]):
        parts.pop()
    return Strip(parts)


def _has_background(part: Segment) -> bool:
    return part.style is not None and part.style.bgcolor is not None


def folded(text: str, width: int) -> list[Strip]:
    """Return a text as it was written, folded."""
    width = max(min(width, MAX_COLUMNS), 1)
    return [
        Strip([Segment(part)])
        for line in text.rstrip("\n").split("\n")
        for part in fold_words(line.expandtabs(4), width)
    ]


MAX_ROW = 4000  # characters of a row; a longer one is cut into several
MAX_ROWS = 500  # whose lines are kept
PART = 2000  # characters of a text that are rendered together, if it has a break there
MAX_PART = 4 * PART  # without a break
MAX_PARTS = 16  # whose lines are kept
PART_BITS = 16  # of the key of a line: a part has fewer lines than characters
ITEM_BITS = 40
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.M)
_BREAK = re.compile(r"\n[ \t]*\n+(?=\S)")  # what follows is not part of the block before it


class Lines(Protocol):
    """Lines of the screen, counted from 0."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Strip: ...

    def key(self, number: int) -> int:
        """Return a number for a line that stays the same while the lines above it change."""
        ...

    def keyed(self, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        """Yield the lines with keys from `first` to `last`."""
        ...

    def measure(self, first: int, last: int, window: int) -> int:
        """Make the lines from `first` to `last`; return how many were added above `window`."""
        ...


class MadeLines:
    """Lines that exist already."""

    def __init__(self, strips: Sequence[Strip]) -> None:
        self._strips = strips

    def __len__(self) -> int:
        return len(self._strips)

    def __getitem__(self, number: int, /) -> Strip:
        return self._strips[number]

    def key(self, number: int) -> int:
        """Return the number."""
        return number

    def keyed(self, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        """Yield the lines between two numbers."""
        return ((n, self[n]) for n in range(max(first, 0), min(last + 1, len(self))))

    def measure(self, first: int, last: int, window: int) -> int:
        """Return 0: the number of lines is known."""
        return 0


class FoldedRows(MadeLines):
    """Rows folded to a width."""

    def __init__(self, rows: Iterable[Row], width: int, lead: str = "", style: str = "") -> None:
        self._rows = [part for row in rows for part in _short_rows(row)]
        self._width = max(width, 1)
        self._lead, self._style = lead, style
        heights = (row_height(row, self._width) for row in self._rows)
        self._tops = list(accumulate(heights, initial=0))
        self._made: dict[int, list[Strip]] = {}  # by row; the last one is the latest

    def __len__(self) -> int:
        return self._tops[-1]

    def __getitem__(self, number: int, /) -> Strip:
        if not 0 <= number < self._tops[-1]:
            raise IndexError(number)
        at = bisect_right(self._tops, number) - 1
        strips = self._made.get(at)
        if strips is None:
            strips = row_strips([self._rows[at]], self._width)
            self._made[at] = strips = indent(strips, self._lead, self._style)
            if len(self._made) > MAX_ROWS:
                del self._made[next(iter(self._made))]
        return strips[number - self._tops[at]]


def _short_rows(row: Row) -> Iterator[Row]:
    text = row.text
    if len(text) <= MAX_ROW:
        yield row
        return
    for at in range(0, len(text), MAX_ROW):
        lead = row.lead if at == 0 or row.rest is None else row.rest
        yield Row(
            text[at : at + MAX_ROW],
            row.style,
            lead if at == 0 or row.rest is not None else " " * len(row.lead),
            row.rest,
            row.lead_style,
            row.whole_words,
        )


class _Part(Struct):
    """A part of a text that does not change any more."""

    text: str
    fence: str = ""  # the first line of the block of code that the part continues
    is_source: bool = False  # cut within a block: shown as it was written
    is_apart: bool = True  # an empty line is above it


class LongText:
    """The lines of a Markdown text that grows.

    A finished block is rendered once while it grows, and again only if it is shown again. What
    comes at once in large amounts is cut into parts without being read.
    """

    def __init__(self, width: int, lead: str = "") -> None:
        self._width = width
        self._lead = lead  # before each line
        self._taken = 0  # characters of the source
        self._parts: list[_Part] = []
        self._tops = [0]  # the lines at which parts begin, and the end of the last
        self._made: dict[int, list[Strip]] = {}  # by part; the last one is the latest
        self._growing = _Part("")  # the finished blocks of the part that grows
        self._finished: list[Strip] = []  # its lines
        self._tail = ""  # the last block, which may still change
        self._tried = 0  # the length of the tail when it was last searched for finished blocks
        self._end: list[Strip] = []  # all lines after the parts

    @property
    def made_lines(self) -> int:
        """How many lines are in memory."""
        return len(self._end) + sum(map(len, self._made.values()))

    def update(self, text: str, *, is_final: bool) -> None:
        """Take over the text, which begins as before."""
        new, self._taken = text[self._taken :], len(text)
        if len(new) > MAX_PART:
            self._cut(self._tail + new)
            self._finish_blocks()
        else:
            self._tail += printable(new)
            if len(self._tail) >= self._tried + max(1, self._tried // 2) or is_final:
                self._finish_blocks()
            if len(self._tail) > MAX_PART:
                self._cut(self._tail)
                self._finish_blocks()
        tail = self._tail_lines(is_final=is_final)
        self._end = list(self._finished)
        if tail:
            if self._growing.is_apart and (self._finished or self._parts):
                self._end.append(blank())
            self._end += tail

    def _tail_lines(self, *, is_final: bool) -> list[Strip]:
        part = self._growing
        if not self._tail.strip():
            return []
        if part.is_source and not part.text:
            return indent(folded(self._tail, self._width), self._lead)
        if len(self._tail) > MAX_PART // 2 and not is_final and not part.fence:
            return indent(folded(self._tail, self._width), self._lead)
        fence = "" if part.text else part.fence
        return indent(markdown(fence + self._tail, self._width), self._lead)

    def _finish_blocks(self) -> None:
        part = self._growing
        if (part.fence or part.is_source) and not part.text:
            self._leave_block()
            return
        starts = block_starts(self._tail)
        self._tried = 0 if len(self._tail) < PART else len(self._tail)
        if starts:
            self._finish(starts[-1] - self._pass_over(starts))

    def _pass_over(self, starts: Sequence[int]) -> int:
        """Make parts of many blocks without rendering them; return the length of all parts."""
        passed, text = 0, self._tail
        for start in starts:
            if start - passed > PART and start < starts[-1]:
                if self._growing.text:
                    self._end_part()
                self._add(_Part(text[passed:start], is_apart=self._growing.is_apart), None)
                self._growing, passed = _Part(""), start
        self._tail = text[passed:]
        return passed

    def _leave_block(self) -> None:
        """Finish the rest of a block that was cut, if its end has come."""
        part = self._growing
        end = _end_of_code(self._tail, part.fence) if part.fence else _break_in(self._tail, 0)
        if end:
            self._finish(end)

    def _finish(self, end: int) -> None:
        """Render what is finished of the tail; begin another part if this one is long enough."""
        part, text = self._growing, self._tail[:end]
        self._tail, self._tried = self._tail[end:], 0
        if not part.text:
            strips = self._rendered(_Part(text, part.fence, part.is_source, part.is_apart))
        else:
            strips = indent(markdown(text, self._width), self._lead)
        if strips and part.is_apart and (self._finished or self._parts):
            strips = [blank(), *strips]
        self._finished += strips
        part.text += text
        if len(part.text) > PART or part.fence or part.is_source:
            self._end_part()

    def _end_part(self) -> None:
        """Keep the finished blocks as a part that does not change any more."""
        part, strips = self._growing, self._finished
        self._add(part, strips)
        self._growing, self._finished = _Part(""), []

    def _add(self, part: _Part, strips: list[Strip] | None) -> None:
        number = len(self._parts)
        self._parts.append(part)
        height = self._estimated(part) if strips is None else len(strips)
        self._tops.append(self._tops[-1] + height)
        if strips is not None:
            self._keep(number, strips)

    def _cut(self, text: str) -> None:
        """Make parts of a text, except of its end."""
        first = self._growing
        if first.text:
            self._end_part()
            first = _Part("")
        fence, is_source, is_apart = first.fence, first.is_source, first.is_apart
        for piece in _pieces(text, fence):
            last = piece
            if piece.is_last:
                break
            # All of a block that is cut is shown as it was written.
            source = is_source or (piece.is_cut and not piece.fence)
            self._add(_Part(piece.text, fence, source and not fence, is_apart), None)
            is_source = piece.is_cut and not piece.fence
            fence, is_apart = piece.fence, not piece.is_cut
        else:
            raise AssertionError("the last piece is marked")
        self._growing, self._finished = _Part("", fence, is_source, is_apart), []
        self._tail, self._tried = printable(last.text), 0

    def _estimated(self, part: _Part) -> int:
        room = max(self._width - 4, 1)
        rows = len(part.text) // room + part.text.count("\n") // 2
        return max(rows, 1) + part.is_apart

    def _rendered(self, part: _Part) -> list[Strip]:
        text = printable(part.text)
        if part.is_source:
            return indent(folded(text, self._width), self._lead)
        return indent(markdown(part.fence + text, self._width), self._lead)

    def _strips(self, number: int) -> list[Strip]:
        """Return the lines of a part."""
        strips = self._made.pop(number, None)
        if strips is None:
            part = self._parts[number]
            strips = self._rendered(part)
            if part.is_apart and number and strips:
                strips = [blank(), *strips]
        self._keep(number, strips)
        return strips

    def _keep(self, number: int, strips: list[Strip]) -> None:
        self._made[number] = strips
        while len(self._made) > MAX_PARTS:
            del self._made[next(iter(self._made))]

    def __len__(self) -> int:
        return self._tops[-1] + len(self._end)

    def __getitem__(self, number: int, /) -> Strip:
        if number >= self._tops[-1]:
            return self._end[number - self._tops[-1]]
        at = bisect_right(self._tops, number) - 1
        strips, inside = self._strips(at), number - self._tops[at]
        return strips[inside] if inside < len(strips) else blank()

    def key(self, number: int) -> int:
        """Return the number of the part and the line in it."""
        at = min(bisect_right(self._tops, number) - 1, len(self._parts))
        return (at << PART_BITS) + number - self._tops[at]

    def keyed(self, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        """Yield the lines between two keys."""
        for at in range(max(first, 0) >> PART_BITS, (last >> PART_BITS) + 1):
            if at > len(self._parts):
                return
            strips = self._end if at == len(self._parts) else self._strips(at)
            for inside, strip in enumerate(strips):
                if first <= (key := (at << PART_BITS) + inside) <= last:
                    yield key, strip

    def measure(self, first: int, last: int, window: int) -> int:
        """Render the parts from line `first` to `last`; return how many were added above."""
        above = 0
        at = max(bisect_right(self._tops, max(first, 0)) - 1, 0)
        while at < len(self._parts) and self._tops[at] <= last:
            if at not in self._made:
                before = self._tops[at + 1] - self._tops[at]
                more = len(self._strips(at)) - before
                if self._tops[at] < window:
                    above += more
                    window += more
                    last += more
                if more:
                    for later in range(at + 1, len(self._tops)):
                        self._tops[later] += more
            at += 1
        return above


class _Piece(Struct, frozen=True):
    """A piece of a long text, and how the next one begins."""

    text: str
    fence: str = ""
    is_cut: bool = False  # within a block
    is_last: bool = False


def _pieces(text: str, fence: str) -> Iterator[_Piece]:
    """Cut a text where blocks end, if it has such places at convenient distances."""
    start = 0
    while len(text) - start > MAX_PART:
        now = _fence_at(text, start, start + PART, fence)
        limit = start + MAX_PART
        if now:  # code is cut at the end of a line
            end = text.find("\n", start + PART, limit) + 1 or limit
        else:
            end = _break_in(text, start + PART, limit)
        is_cut = not end or bool(now)
        if not end:
            end = text.find("\n", start + PART, limit) + 1 or limit
        fence = _fence_at(text, start, end, fence)
        yield _Piece(text[start:end], fence, is_cut)
        start = end
    yield _Piece(text[start:], is_last=True)


def _fence_at(text: str, start: int, end: int, fence: str) -> str:
    """Return the first line of the block of code that is open at the end; empty without one."""
    for found in _FENCE.finditer(text, start, end):
        mark = found[1]
        if not fence:
            if not (mark[0] == "`" and "`" in found[2]):
                fence = f"{mark}{found[2][:100]}\n"
        elif mark[0] == fence[0] and not found[2].strip():
            size = len(fence) - len(fence.lstrip(fence[0]))
            fence = "" if len(mark) >= size else fence
    return fence


def _end_of_code(text: str, fence: str) -> int:
    """Return where the line after a block of code begins, 0 if it has not ended."""
    for found in _FENCE.finditer(text):
        if not _fence_at(text, 0, found.end(), fence):
            return found.end() + 1 if text[found.end() : found.end() + 1] == "\n" else 0
    return 0


def _break_in(text: str, start: int, limit: int | None = None) -> int:
    """Return where a block begins after an empty line, 0 if none does."""
    found = _BREAK.search(text, start, len(text) if limit is None else limit)
    if found is None:
        return 0
    fence = _FENCE.search(text, start, found.start())
    return 0 if fence is not None and limit is not None else found.end()


class StackedLines:
    """Lines below each other."""

    def __init__(self, items: Sequence[Lines]) -> None:
        self.items: list[Lines] = []
        for item in items:
            self.items += item.items if isinstance(item, StackedLines) else [item]

    def __len__(self) -> int:
        return sum(map(len, self.items))

    def _at(self, number: int) -> tuple[int, int]:
        for at, item in enumerate(self.items):
            if number < len(item):
                return at, number
            number -= len(item)
        raise IndexError(number)

    def __getitem__(self, number: int, /) -> Strip:
        at, inside = self._at(number)
        return self.items[at][inside]

    def key(self, number: int) -> int:
        """Return the number of the item, and the key in it."""
        at, inside = self._at(number)
        return (at << ITEM_BITS) + self.items[at].key(inside)

    def keyed(self, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        """Yield the lines between two keys."""
        for at, item in enumerate(self.items):
            base = at << ITEM_BITS
            for key, strip in item.keyed(first - base, min(last - base, (1 << ITEM_BITS) - 1)):
                yield base + key, strip

    def measure(self, first: int, last: int, window: int) -> int:
        """Measure the items; return how many lines were added above `window`."""
        above = top = 0
        for item in self.items:
            moved = above - top
            if top <= last + above and top + len(item) >= first + above:
                above += item.measure(first + moved, last + moved, window + moved)
            top += len(item)
        return above
