"""Selects messages by a JSONPath (RFC 9535)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from accord.text import lenient_json
from accord_trace.packing import TraceError
from accord_trace.records import Direction, Kind, decode_record
from accord_trace.text_search import Lines

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
