"""An immutable sequence that can be extended without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, cast, overload

T = TypeVar("T")


class SharedSequence(Sequence[T]):
    """The first items of a list that only grows; equal to a tuple of these items."""

    __slots__ = ("_items", "_size")

    def __init__(self, items: list[T], size: int) -> None:
        self._items = items
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[place] for place in range(*index.indices(self._size)))
        if not -self._size <= index < self._size:
            raise IndexError("index out of range")
        return self._items[index if index >= 0 else index + self._size]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._size)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedSequence):
            shared = cast("SharedSequence[Any]", other)
            if self._items is shared._items:
                return self._size == shared._size
            return tuple(self) == tuple(shared)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def plus(self, item: T) -> SharedSequence[T]:
        """Return a sequence with one more item."""
        items = self._items
        if len(items) != self._size:  # another sequence has extended the list
            items = items[: self._size]
        items.append(item)
        return SharedSequence(items, self._size + 1)


def appended(items: Sequence[T], item: T) -> SharedSequence[T]:
    """Return a sequence with one more item, in constant time."""
    if not isinstance(items, SharedSequence):
        items = SharedSequence(list(items), len(items))
    return items.plus(item)
