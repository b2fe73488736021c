"""The forms of requests: a small language of words, and a matcher that never goes back twice.

`read|show [the file] <path:place>` has alternatives, optional words and a slot; `(go on | stop)`
are alternatives of several words (mind the spaces). A form becomes a little program that is run
over the words with every place of it visited at most once for each word, so time is bounded by
the product of the two however hostile the words are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from accord_coder.models.embedded.words import Word

__all__ = ("Budget", "Form", "Slot", "Slots", "TooHard")

# Where a slot may end, and what it means then: the preferred first.
Slot: TypeAlias = Callable[[Sequence[Word], int], Iterator[tuple[int, Any]]]
Slots: TypeAlias = Mapping[str, Slot]

# Words that may stand anywhere between those of a form and mean nothing there.
NOISE = frozenset(
    "the a an my our please just also kindly simply : , me us of ( quickly again some".split()
)
_TOKENS = re.compile(r"\s\|\s|[\[\]()|]|<\w+(?::\w+)?>|[^\s\[\]()|<>]+")
_OR = " | "


class TooHard(Exception):
    """The words need more steps than plain requests do."""


class Budget:
    """How many steps may still be made for a prompt."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps; raise `TooHard` when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise TooHard


class _Literal(Struct, frozen=True):
    word: str


class _Gap(Struct, frozen=True):
    name: str
    kind: str


class _Fork(Struct, frozen=True):
    first: int
    second: int


class _Jump(Struct, frozen=True):
    to: int


class _End(Struct, frozen=True):
    pass


_Step: TypeAlias = _Literal | _Gap | _Fork | _Jump | _End


class Form:
    """One way to say a request."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps: list[_Step] = []
        self._tokens = _TOKENS.findall(text)
        self._at = 0
        self._sequence()
        if self._at != len(self._tokens):
            raise ValueError(f"unbalanced form: {text}")
        self._steps.append(_End())
        self.first = self._first()

    # Compile.

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sequence(self) -> None:
        while (token := self._peek()) and token not in ("]", ")", _OR):
            self._item()

    def _item(self) -> None:
        token = self._peek()
        if token in ("[", "("):
            self._group(optional=token == "[")
            return
        words = [token]
        self._at += 1
        while self._peek() == "|":
            words.append(self._tokens[self._at + 1])
            self._at += 2
        if token.startswith("<"):
            name, _, kind = token[1:-1].partition(":")
            self._steps.append(_Gap(name, kind or name))
        else:
            self._choice([[_Literal(word)] for word in words])

    def _group(self, *, optional: bool) -> None:
        self._at += 1
        branches: list[list[_Step]] = []
        outer, start = self._steps, self._at
        while True:
            self._steps = []
            self._sequence()
            branches.append(self._steps)
            if self._peek() != _OR:
                break
            self._at += 1
        if self._peek() != ("]" if optional else ")"):
            raise ValueError(f"unbalanced form: {self.text} at {start}")
        self._at += 1
        self._steps = outer
        if optional:
            branches.append([])
        self._choice(branches)

    def _choice(self, branches: list[list[_Step]]) -> None:
        """Append branches, the preferred first, and go on behind them."""
        jumps: list[int] = []
        for number, branch in enumerate(branches):
            last = number == len(branches) - 1
            fork = len(self._steps)
            if not last:
                self._steps.append(_Jump(-1))
            self._append(branch)
            if not last:
                jumps.append(len(self._steps))
                self._steps.append(_Jump(-1))
                self._steps[fork] = _Fork(fork + 1, len(self._steps))
        for place in jumps:
            self._steps[place] = _Jump(len(self._steps))

    def _append(self, branch: list[_Step]) -> None:
        base = len(self._steps)
        for step in branch:
            match step:
                case _Fork(first, second):
                    self._steps.append(_Fork(first + base, second + base))
                case _Jump(to):
                    self._steps.append(_Jump(to + base))
                case _:
                    self._steps.append(step)

    def _first(self) -> frozenset[str] | None:
        """Return the words that it can begin with, None when with anything."""
        found: set[str] = set()
        seen: set[int] = set()
        todo = [0]
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            match self._steps[at]:
                case _Literal(word):
                    found.add(word)
                case _Fork(first, second):
                    todo += [first, second]
                case _Jump(to):
                    todo.append(to)
                case _:
                    return None
        return frozenset(found)

    # Match.

    def match(self, words: Sequence[Word], slots: Slots, budget: Budget) -> dict[str, Any] | None:
        """Return what the slots hold when these words, all of them, are this request."""
        seen: set[tuple[int, int]] = set()
        todo: list[tuple[int, int, tuple[Any, ...]]] = [(0, 0, ())]
        while todo:
            step, at, held = todo.pop()
            if (step, at) in seen:
                continue
            seen.add((step, at))
            budget.spend()
            match self._steps[step]:
                case _Fork(first, second):
                    todo += [(second, at, held), (first, at, held)]
                    continue
                case _Jump(to):
                    todo.append((to, at, held))
                    continue
                case _End():
                    if at == len(words):
                        return _held(held)
                    ends: list[tuple[int, tuple[Any, ...]]] = []
                case _Literal(word):
                    same = at < len(words) and words[at].low == word
                    ends = [(at + 1, held)] if same else []
                case _Gap(name, kind):
                    ends = [(end, (name, value, held)) for end, value in slots[kind](words, at)]
                    budget.spend(len(ends))
            if at < len(words) and words[at].low in NOISE:
                todo.append((step, at + 1, held))
            todo += [(step + 1, end, now) for end, now in reversed(ends)]
        return None


def _held(held: tuple[Any, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while held:
        name, value, held = held
        found.setdefault(name, value)
    return found
