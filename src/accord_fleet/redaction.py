"""Removes known secrets from what a run stores: the last net, after all other measures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from accord_fleet.types.result import Result

__all__ = ("REDACTED", "Redactor")

REDACTED = "[redacted]"
_SHORTEST = 8  # characters; the values of shorter variables occur by chance
# What agents and graders write; ids, names and numbers stay what they are.
_FREE = ("answer", "diff", "files_changed", "stderr", "stop_reasons")


class Redactor:
    """Replaces values by `[redacted]`, also where JSON has escaped them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: tuple[bytes, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Replace these values, too."""
        found = {value.encode("utf-8", "surrogateescape") for value in self._values_of(values)}
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
        fields = {name: self._value(getattr(result, name)) for name in _FREE}
        failure, verdict = result.failure, result.verdict
        if failure is not None:
            failure = msgspec.structs.replace(failure, message=self.text(failure.message))
        if verdict is not None:
            verdict = msgspec.structs.replace(
                verdict,
                reason=self.text(verdict.reason),
                error=self._value(verdict.error),
                details=self._value(verdict.details),
            )
        return msgspec.structs.replace(result, **fields, failure=failure, verdict=verdict)

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                items = cast("dict[Any, Any]", value).items()
                return {self._value(key): self._value(item) for key, item in items}
            case list() | tuple():
                items = cast("list[Any]", value)
                return type(items)(map(self._value, items))
            case _:
                return value

    @staticmethod
    def _values_of(values: Iterable[str]) -> Iterable[str]:
        for value in values:
            # In a diff, a mark precedes each line of a private key.
            for text in {value, *value.splitlines()}:
                if len(text) >= _SHORTEST:
                    yield text
                    yield json.dumps(text)[1:-1]
                    yield json.dumps(text, ensure_ascii=False)[1:-1]
