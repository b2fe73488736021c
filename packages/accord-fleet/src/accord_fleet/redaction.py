"""Removes known secrets from what a run stores: the last net, after all other measures.

A `Redactor` replaces the values in texts and results. `SplitSecrets` finds those that arrive in
pieces: a text waits while it ends like the start of a secret. `StderrTail` uses both.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from accord.text.redact import MASK, SHORTEST
from accord.text.secrets import redacted_text
from accord_fleet.types import Result

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


# Secrets that arrive in pieces.

_ITEMS = 4096  # that wait at most
_BYTES = 2**20
_SET = 64  # characters; shorter starts of secrets are in a set


class _Waiting(msgspec.Struct, eq=False):
    item: Any
    size: int
    text: str = ""
    cuts: list[tuple[int, int, bool]] = []
    """Where a secret is in the text, and whether it begins here."""
    is_held: bool = False


class _Begun(msgspec.Struct, eq=False):
    """The end of a stream that may be the start of a secret."""

    text: str
    parts: list[tuple[_Waiting, int]]
    """The texts that it is in, each with the place from which it is."""


class _Secrets:
    """What is looked for in texts."""

    def __init__(self, values: Sequence[str]) -> None:
        ordered = sorted(values, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, ordered)))
        self._values = ordered
        self._starts = {
            value[:size] for value in values for size in range(1, min(len(value), _SET))
        }
        self._before_last = {char for value in values for char in value[:-1]}
        firsts = "".join(sorted({value[0] for value in values}))
        self._firsts = re.compile(f"[{re.escape(firsts)}]" if firsts else "(?!)")
        self._longest = max(map(len, values), default=1)
        self._shortest = min(map(len, values), default=1)

    def are_in(self, text: str) -> bool:
        """Return whether a secret is in a text."""
        if len(text) < self._shortest:
            return False
        for value in self._values:  # noqa: SIM110  # half the time of `any`
            if value in text:
                return True
        return False

    def start_in(self, text: str, begin: int) -> int:
        """Return where the longest end of a text starts that is the start of a secret."""
        if text[-1] not in self._before_last:
            return len(text)
        for match in self._firsts.finditer(text, max(begin, len(text) - self._longest + 1)):
            end = text[match.start() :]
            if end in self._starts or (
                len(end) >= _SET and any(value.startswith(end) for value in self._values)
            ):
                return match.start()
        return len(text)


_secrets_of = lru_cache(maxsize=4)(_Secrets)  # each attempt has the same ones


class SplitSecrets:
    """Passes on items in their order; the texts of some of them are pieces of streams."""

    def __init__(
        self, values: Iterable[str], mark: str, write: Callable[[Any, str | None], None]
    ) -> None:
        """`write` gets each item, and its text if secrets were replaced by `mark` in it.

        At most a MiB waits. Of a secret whose pieces are further apart, the first ones are kept.
        """
        self._secrets = _secrets_of(tuple(values))
        self._mark = mark
        self._write = write
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._begun: dict[Hashable, _Begun] = {}

    def add(self, item: Any, size: int = 0, *, stream: Hashable = None, text: str = "") -> None:
        """Pass on an item of `size` bytes; its text continues a stream."""
        if not self._queue and (not text or self._is_plain(stream, text)):
            self._write(item, None)
            return
        waiting = _Waiting(item, size, text, [])
        if text:
            self._continue(stream, waiting)
        self._queue.append(waiting)
        self._bytes += size
        if self._bytes > _BYTES or len(self._queue) > _ITEMS:
            self._let_go()
        self._release()

    def flush(self) -> None:
        """Pass on everything: no stream continues."""
        self._let_go()
        self._release()
        self._begun.clear()

    def _continue(self, stream: Hashable, last: _Waiting) -> None:
        begun = self._begun.pop(stream, None)
        joined, parts = last.text, [(last, 0)]
        if begun is not None:
            joined, parts = begun.text + joined, [*begun.parts, *parts]
            for waiting, _ in begun.parts:
                waiting.is_held = False
        end = 0
        if self._secrets.are_in(joined):
            for match in self._secrets.pattern.finditer(joined):
                _cut(parts, len(joined), *match.span())
                end = match.end()
        start = self._secrets.start_in(joined, end)
        if start < len(joined):
            kept = _parts_from(parts, len(joined), start)
            self._begun[stream] = _Begun(joined[start:], kept)
            for waiting, _ in kept:
                waiting.is_held = True

    def _is_plain(self, stream: Hashable, text: str) -> bool:
        if stream in self._begun:
            return False
        secrets = self._secrets
        return secrets.start_in(text, 0) == len(text) and not secrets.are_in(text)

    def _let_go(self) -> None:
        """Hold nothing; the streams continue, so that the rest of a secret is still removed."""
        for begun in self._begun.values():
            for waiting, _ in begun.parts:
                waiting.is_held = False
            begun.parts = []

    def _release(self) -> None:
        while self._queue and not self._queue[0].is_held:
            waiting = self._queue.popleft()
            self._bytes -= waiting.size
            self._write(waiting.item, self._edited(waiting) if waiting.cuts else None)

    def _edited(self, waiting: _Waiting) -> str:
        text = waiting.text
        for start, end, is_first in reversed(waiting.cuts):
            text = f"{text[:start]}{self._mark if is_first else ''}{text[end:]}"
        return text


def _parts_from(
    parts: list[tuple[_Waiting, int]], length: int, start: int
) -> list[tuple[_Waiting, int]]:
    """Return the texts that a joined text of this length is in from `start` on."""
    kept: list[tuple[_Waiting, int]] = []
    end = length
    for waiting, first in reversed(parts):
        begin = end - (len(waiting.text) - first)
        kept.append((waiting, first + max(start - begin, 0)))
        end = begin
        if end <= start:
            break
    return kept[::-1]


def _cut(parts: list[tuple[_Waiting, int]], length: int, start: int, stop: int) -> None:
    """Cut a secret from the texts that it is in."""
    is_first = True
    end = length - sum(len(waiting.text) - first for waiting, first in parts)
    for waiting, first in parts:
        begin, end = end, end + len(waiting.text) - first
        if start < end and begin < stop:
            at = first + max(start - begin, 0)
            waiting.cuts.append((at, first + min(stop, end) - begin, is_first))
            is_first = False


class StderrTail:
    """The end of what an agent writes to its stderr, without secrets.

    A secret that is on several lines is removed, too.
    """

    def __init__(self, redactor: Redactor, chars: int) -> None:
        self._redactor = redactor
        self._chars = chars
        self._text = ""
        self._lines = SplitSecrets(redactor.values, MASK, self._write)

    def add(self, line: str) -> None:
        """Add a line, or a part of a very long one."""
        self._lines.add(line, len(line), text=line)

    def text(self) -> str:
        """Return the end of all lines so far."""
        self._lines.flush()
        return self._text

    def _write(self, line: str, changed: str | None) -> None:
        # Redacted before it is cut: half a secret is not found later.
        line = redacted_text(self._redactor.text(line if changed is None else changed))
        self._text = f"{self._text}{line}\n"[-self._chars :]
