"""Parses the output of `rg --json` in pieces, and formats the matches."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec
from msgspec import Struct

_MAX_CHARACTERS = 500  # of a line


class Place(Struct, frozen=True):
    """A matching line; `path` is the one in the output."""

    path: str
    line: int


class _Text(Struct, frozen=True):
    text: str | None = None
    bytes: str | None = None  # base64, if it is not UTF-8

    def decoded(self, errors: str) -> str:
        if self.text is not None:
            return self.text
        return base64.b64decode(self.bytes or "").decode("utf-8", errors)


class _Data(Struct, frozen=True):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    binary_offset: int | None = None


class _Line(Struct, frozen=True):
    type: str
    data: _Data


class Matches:
    """Collects matching lines up to a limit, then calls `on_full` once.

    `wanted(path)` is called once for each file with matches and returns whether to include it.
    Output that is not JSON is the error text of the search.
    """

    def __init__(
        self,
        limit: int,
        *,
        shown: Callable[[str], str],
        wanted: Callable[[str], bool],
        on_full: Callable[[], None],
    ) -> None:
        self.lines: list[str] = []
        self.places: list[Place] = []
        self.error = ""
        self.is_full = False
        self._limit = limit
        self._shown = shown
        self._wanted = wanted
        self._on_full = on_full
        self._rest = b""
        # Of the current file; None if it is excluded.
        self._file: list[tuple[int, str, bool]] | None = None
        self._found = 0  # its matching lines
        self._decode = msgspec.json.Decoder(_Line).decode

    def feed(self, data: bytes) -> None:
        """Process a piece of output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self.is_full:
                self._rest = b""
                return
            self._read_record(line)

    def _read_record(self, line: bytes) -> None:
        try:
            message = self._decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError):
            self.error += line.decode("utf-8", "replace") + "\n"
            return
        data = message.data
        path = "" if data.path is None else data.path.decoded("surrogateescape")
        match message.type:
            case "begin":
                self._file = [] if self._wanted(path) else None
                self._found = 0
            case "match" | "context" if data.lines is not None and data.line_number is not None:
                text = data.lines.decoded("replace")
                self._add(path, data.line_number, text, is_match=message.type == "match")
            case "end" if data.binary_offset is None:
                self._end(path)
            case _:
                pass

    def _add(self, path: str, number: int, line: str, *, is_match: bool) -> None:
        if self._file is None:
            return
        text = line.removesuffix("\n").removesuffix("\r")
        if len(text) > _MAX_CHARACTERS:
            text = f"{text[:_MAX_CHARACTERS]}…"
        self._file.append((number, text, is_match))
        self._found += is_match
        if len(self.places) + self._found > self._limit:
            self._end(path)

    def _end(self, path: str) -> None:
        """Add the matches of a file."""
        found, self._file = self._file or [], None
        name = self._shown(path)
        before: int | None = None
        with_context = any(not is_match for _, _, is_match in found)
        for number, text, is_match in found:
            if is_match and len(self.places) == self._limit:
                self.is_full = True
                self._on_full()
                return
            if with_context and self.lines and before != number - 1:
                self.lines.append("--")
            before = number
            if is_match:
                self.places.append(Place(path, number))
                self.lines.append(f"{name}:{number}: {text}")
            else:
                self.lines.append(f"{name}-{number}- {text}")
