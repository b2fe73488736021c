"""Removes known secrets from what a run stores: the last net, after all other measures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from accord.text.redact import MASK, SHORTEST
from accord_fleet.types.result import Result

_MARK = MASK.encode()
# What agents and graders write; ids, names and numbers stay what they are.
_FREE = ("answer", "diff", "files_changed", "stderr", "stop_reasons")


class Redactor:
    """Replaces values by `[redacted]`, also where JSON has escaped them.

    Of a value with 16 characters or more, half of it at its start or end is replaced, too: text
    that was cut has a part of it.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values: tuple[str, ...] = ()
        """The values, as they are in texts."""
        self._found: tuple[_Value, ...] = ()
        self._halves: tuple[bytes, ...] = ()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Replace these values, too."""
        # In a diff, a mark precedes each line of a private key.
        parts = {part for value in values for part in (value, *value.splitlines())}
        longer = (part for part in parts if len(part) >= SHORTEST and part not in MASK)
        texts = {*self.values, *longer}
        self.values = tuple(sorted(texts, key=len, reverse=True))
        written = {
            form.encode("utf-8", "surrogateescape") for text in texts for form in _forms(text)
        }
        # The longest first: one value may contain another.
        self._found = tuple(map(_Value, sorted(written, key=len, reverse=True)))
        self._halves = tuple({half for each in self._found for half in (each.head, each.tail)})

    def data(self, data: bytes | bytearray) -> bytes | bytearray:
        """Return bytes without the values."""
        for half in self._halves:
            if half in data:
                return self._without_values(data)
        return data

    def _without_values(self, data: bytes | bytearray) -> bytes | bytearray:
        found = [each for each in self._found if each.head in data or each.tail in data]
        for each in found:
            data = data.replace(each.value, _MARK)
        for each in found:
            data = each.without_halves(data)
        return data

    def text(self, text: str) -> str:
        """Return a text without the values."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def result(self, result: Result) -> Result:
        """Return a result without the values."""
        if not self._found:
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


def why_not_redacted(name: str, environment: Mapping[str, str]) -> str | None:
    """Return why the value of a variable cannot be removed from what is stored; None if it is."""
    value = environment.get(name)
    if value is None:
        return f"expected the environment variable {name}, which is not set"
    if len(value) < SHORTEST:
        return (
            f"expected a value of {SHORTEST} characters or more in {name}, it has {len(value)}:"
            " a short text occurs by chance"
        )
    return None


class _Value:
    """A value as it is written, and its halves: text that was cut has a part of it."""

    def __init__(self, value: bytes) -> None:
        half = max(SHORTEST, (len(value) + 1) // 2)
        if len(value) < 2 * SHORTEST:
            half = len(value)
        self.value = value
        self.head = value[:half]
        self.tail = value[-half:]

    def without_halves(self, data: bytes | bytearray) -> bytes | bytearray:
        """Return bytes without what has a half or more of the value."""
        value = self.value
        if self.head == value:
            return data
        at = 0
        while (at := data.find(self.head, at)) >= 0:
            end = at + len(self.head)
            while end - at < len(value) and data[end : end + 1] == value[end - at : end - at + 1]:
                end += 1
            data = data[:at] + _MARK + data[end:]
            at += len(_MARK)
        at = 0
        while (at := data.find(self.tail, at)) >= 0:
            end = at + len(self.tail)
            while at and end - at < len(value) and data[at - 1] == value[at - end - 1]:
                at -= 1
            data = data[:at] + _MARK + data[end:]
            at += len(_MARK)
        return data


def _forms(text: str) -> Iterable[str]:
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
