"""Searches the lines of a recording: for a text in any case, or by a JSONPath (RFC 9535).

Python searches in one thread at a time: a `SecondSearch` starts this module as a second process,
which searches a large recording from its end while this one searches from its beginning.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from accord.text import lenient_json
from accord_trace.columns import flag_table
from accord_trace.records import Direction, Kind, decode_record
from accord_trace.trace_file import TraceError

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


# Names of a path that a message must contain to fit: not those in brackets, which may be
# conditions, and not those that every message of a kind has.
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")
_PLAIN = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*)+")
_OF_ENVELOPE = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))


class JsonPath:
    """A query that is applied to messages; raise `TraceError` if it is not a JSONPath."""

    def __init__(self, text: str) -> None:
        import jsonpath_rfc9535

        try:
            self._find = jsonpath_rfc9535.compile(text).finditer
        except jsonpath_rfc9535.JSONPathError as exc:
            why = str(exc).partition("\n")[0]  # some versions draw the path below
            raise TraceError(
                f"Expected a JSONPath such as $.params.update, got {text!r}: {why}"
            ) from None
        self._errors: type[Exception] = jsonpath_rfc9535.JSONPathError
        # Most paths have only names: these are looked up without the library.
        self._plain = text.split(".")[1:] if _PLAIN.fullmatch(text) else []
        names = _names(text)
        self._of_envelope = _OF_ENVELOPE.intersection(names)
        needed = [name.encode() for name in names if name not in _OF_ENVELOPE]
        self._needed = sorted(needed, key=len, reverse=True)

    def may_fit(self, kind: Kind, direction: Direction, is_error: bool) -> bool:
        """Return whether it can find something in such a message."""
        if kind == "invalid":
            return True
        own = {"jsonrpc", "id"}
        own |= {"error" if is_error else "result"} if kind == "response" else {"method", "params"}
        return kind != "end" and self._of_envelope <= own

    def rows_in(
        self, lines: Lines, rows: Sequence[int], may_fit: Callable[[int], object]
    ) -> list[int]:
        """Return in which of these rows of the lines it finds something, if they may fit."""
        if self._needed:
            block, longest = lines.block, self._needed[0]
            found = lines.rows_where(lambda start, end: block.find(longest, start, end))
            rows = found if len(rows) == len(lines.rows) else sorted({*found}.intersection(rows))
        return [row for row in rows if may_fit(row) and self._finds(lines.line(row))]

    def _finds(self, line: bytes) -> bool:
        if not all(name in line for name in self._needed):
            return False
        try:
            record = decode_record(line)
            message: Any = None if record is None else lenient_json.loads(record.frame)
        except ValueError:
            return False
        if self._plain:
            return _has(message, self._plain)
        try:
            return next(iter(self._find(message)), None) is not None
        except (self._errors, RecursionError):
            return False


def _has(value: Any, names: Sequence[str]) -> bool:
    for name in names:
        if not lenient_json.is_object(value) or name not in value:
            return False
        value = value[name]
    return True


def _names(path: str) -> list[str]:
    """Return names that a message must contain."""
    before = None
    while before != path:
        before, path = path, _BRACKETS.sub("", path)
    if "[" in path or "]" in path or '"' in path or "'" in path:
        return []
    return _NAME.findall(path)


# The second process.

_PROGRAM = "accord_trace.search"


class Block(Struct, frozen=True, array_like=True):
    """Messages that are searched at once: those from `first` to `end`, in the part `part`.

    Their lines have so many bytes, from `place` on in this part.
    """

    first: int
    end: int
    part: int
    place: int
    size: int


class SearchRequest(Struct, frozen=True):
    """What the process searches; either `text` or `json_path` is empty.

    The offsets of the lines of all blocks follow, as 64-bit numbers, and their flags.
    """

    text: str
    json_path: str
    paths: list[str]
    blocks: list[Block]


class SecondSearch:
    """Searches blocks from the last one to the first one.

    What was found from message `done_from` on is known. If the process fails, nothing more is.
    """

    def __init__(self, request: SearchRequest, offsets: array[int], flags: array[int]) -> None:
        self.end: int = request.blocks[-1].end
        self.done_from: int = self.end
        self._found: list[tuple[int, Sequence[int]]] = []  # the first message of a block, numbers
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._thread = threading.Thread(
            target=self._run, args=(request, offsets, flags), daemon=True
        )
        self._thread.start()

    def rows_between(self, first: int, end: int) -> list[int]:
        """Return the numbers of the messages found from `first` to `end`, which must be known."""
        return [row for _, rows in reversed(self._found) for row in rows if first <= row < end]

    def stop(self) -> None:
        """End the process; nothing more becomes known."""
        self._is_over = True
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()

    def _run(self, request: SearchRequest, offsets: array[int], flags: array[int]) -> None:
        with suppress(OSError):
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for this process, which ends it.
                process_group=0 if sys.platform != "win32" else None,
            )
            with process:
                if self._is_over:
                    process.kill()
                assert process.stdin is not None
                assert process.stdout is not None
                text = msgspec.json.encode(request)
                process.stdin.write(len(text).to_bytes(8, "little") + text)
                process.stdin.write(memoryview(offsets))
                process.stdin.write(memoryview(flags))
                process.stdin.flush()
                while line := process.stdout.readline():
                    first, *rows = map(int, line.split())
                    self._found.append((first, rows))
                    self.done_from = first


def run(source: BinaryIO, target: BinaryIO) -> None:
    """Search what is requested; write a line for each block: its first message, what was found."""
    size = int.from_bytes(source.read(8), "little")
    request = msgspec.json.decode(source.read(size), type=SearchRequest)
    start = request.blocks[0].first
    count = request.blocks[-1].end - start
    offsets = array("Q")
    offsets.frombytes(source.read(count * offsets.itemsize))
    search = _search(request, source.read(count))
    files = [Path(path).open("rb", buffering=0) for path in request.paths]  # noqa: SIM115  # to the end
    for block in reversed(request.blocks):
        file = files[block.part]
        file.seek(block.place)
        data = file.read(block.size)
        if len(data) < block.size:
            return  # it was replaced
        lines = Lines(data, offsets, block.first - start, block.end - start)
        found = [start + row for row in search(lines)]
        target.write(b" ".join(str(row).encode() for row in (block.first, *found)) + b"\n")
        target.flush()


def _search(request: SearchRequest, flags: bytes) -> Callable[[Lines], Sequence[int]]:
    if request.text:
        return TextSearch(request.text).rows_in
    path = JsonPath(request.json_path)
    may_fit = flags.translate(flag_table(path.may_fit))
    return lambda lines: path.rows_in(lines, lines.rows, may_fit.__getitem__)


if __name__ == "__main__":
    run(sys.stdin.buffer, sys.stdout.buffer)
