"""Removes known secrets from what a run stores: the last net, after all other measures."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from accord_fleet.types.result import Result

__all__ = ("REDACTED", "Redactor")

REDACTED = "[redacted]"
_SHORTEST = 8  # characters; the values of shorter variables occur by chance


class Redactor:
    """Replaces values by `[redacted]`, also where JSON has escaped them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: tuple[bytes, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Replace these values, too."""
        found = {value.encode() for value in self._values_of(values)}
        # The longest first: one value may contain another.
        self._values = tuple(sorted({*self._values, *found}, key=len, reverse=True))

    def data(self, data: bytes | bytearray) -> bytes | bytearray:
        """Return bytes without the values."""
        for value in self._values:
            if value in data:
                data = data.replace(value, REDACTED.encode())
        return data

    def text(self, text: str) -> str:
        """Return a text without the values."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def result(self, result: Result) -> Result:
        """Return a result without the values."""
        if not self._values:
            return result
        data = msgspec.json.encode(result)
        redacted = self.data(data)
        return result if redacted == data else msgspec.json.decode(redacted, type=Result)

    @staticmethod
    def _values_of(values: Iterable[str]) -> Iterable[str]:
        for value in values:
            if len(value) >= _SHORTEST:
                yield value
                yield json.dumps(value)[1:-1]
                yield json.dumps(value, ensure_ascii=False)[1:-1]
