"""Selects messages by a JSONPath (RFC 9535)."""

from __future__ import annotations

import re
from typing import Any

from accord.text import lenient_json
from accord.trace.packing import TraceError
from accord.trace.records import decode_record

__all__ = ("JsonPath",)

# Names of a path that a message must contain to fit: not those in brackets, which may be
# conditions, and not those that every message of a kind has.
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")
_OF_ENVELOPE = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))


class JsonPath:
    """A query that is applied to messages; raise `TraceError` if it is not a JSONPath."""

    def __init__(self, text: str) -> None:
        from jsonpath import JSONPathEnvironment, JSONPathError

        try:
            self._find = JSONPathEnvironment(strict=True).compile(text).finditer
        except JSONPathError as exc:
            raise TraceError(
                f"Expected a JSONPath such as $.params.update, got {text!r}: {exc}"
            ) from None
        self._errors: type[Exception] = JSONPathError
        self._needed = _names(text)

    def finds(self, line: bytes) -> bool:
        """Return whether it finds something in the message of a line."""
        for name in self._needed:
            if name not in line:
                return False
        try:
            record = decode_record(line)
            message: Any = None if record is None else lenient_json.loads(record.frame)
        except ValueError:
            return False
        try:
            return next(iter(self._find(message)), None) is not None
        except (self._errors, RecursionError):
            return False


def _names(path: str) -> list[bytes]:
    before = None
    while before != path:
        before, path = path, _BRACKETS.sub("", path)
    if "[" in path or "]" in path or '"' in path or "'" in path:
        return []
    return [name.encode() for name in _NAME.findall(path) if name not in _OF_ENVELOPE]
