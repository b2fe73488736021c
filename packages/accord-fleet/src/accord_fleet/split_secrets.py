"""Removes secrets that arrive in pieces: a text waits while it ends like the start of a secret."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

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
