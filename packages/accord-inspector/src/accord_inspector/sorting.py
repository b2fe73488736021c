"""The messages of a view in the order of a column."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from accord_inspector.json_http import ApiError
from accord_inspector.messages import View
from accord_trace.columns import NONE, Columns
from accord_trace.message_index import MessageIndex, MessageRow

COLUMNS: tuple[str, ...] = ("way", "session", "method", "bytes", "latency")


class SortedView:
    """A view in the order of `column`, such as `bytes`, or the other way round: `-bytes`.

    Equal messages are in the order of their numbers; those without a value are last. `update` sorts
    what has come since. Raise `ApiError` for an unknown column.
    """

    def __init__(self, view: View, index: MessageIndex, column: str) -> None:
        self._is_reverse = column.startswith("-")
        self._name = column.removeprefix("-")
        if self._name not in COLUMNS:
            raise ApiError(400, f"sort: expected one of: {', '.join(COLUMNS)}, got {column!r}")
        self.view: View = view
        self._index = index
        self._order: array[int] = array("I")
        self._running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._order)

    async def update(self) -> None:
        """Sort, in a thread, unless this is done; two pages wait for one thread."""
        if len(self._order) == len(self.view):
            return
        if self._running is None:
            self._running = asyncio.create_task(self._sort())
        await asyncio.shield(self._running)

    async def _sort(self) -> None:
        try:
            self._order = await asyncio.to_thread(self._sorted, self.view.numbers())
        finally:
            self._running = None

    def rows(self, first: int, count: int) -> Iterator[MessageRow]:
        """Yield a window of the list."""
        for number in self._order[max(first, 0) : first + count]:
            yield self._index.row(number)

    def position(self, n: int) -> int | None:
        """Return the position of a message in the list; None if it is not selected."""
        try:
            return self._order.index(n)
        except ValueError:
            return None

    def _sorted(self, numbers: Sequence[int]) -> array[int]:
        value, has = _column(self._index.columns, self._name)
        known = [number for number in numbers if has(number)]
        known.sort(key=value, reverse=self._is_reverse)
        rest = (
            [number for number in numbers if not has(number)] if len(known) < len(numbers) else []
        )
        return array("I", known + rest)


def _column(columns: Columns, name: str) -> tuple[Callable[[int], Any], Callable[[int], bool]]:
    """Return what a message is sorted by, and whether it has this."""
    times, pairs = columns.times, columns.pairs
    match name:
        case "bytes":
            return columns.sizes.__getitem__, lambda _: True
        case "latency":
            return (
                lambda number: abs(times[pairs[number]] - times[number]),
                lambda number: pairs[number] != NONE,
            )
        case "method":
            return _named(columns.methods, columns.method_names)
        case "session":
            return _named(columns.sessions, columns.session_names)
        case _:
            ways = [f"{route.sender} {route.receiver}" for route in columns.route_names]
            return _named(columns.routes, ways)


def _named(
    numbers: Sequence[int], names: Sequence[str | None]
) -> tuple[Callable[[int], Any], Callable[[int], bool]]:
    """Return the rank of a message's name, and whether it has one."""
    order = sorted(range(len(names)), key=lambda at: (names[at] or "").casefold())
    ranks = {at: rank for rank, at in enumerate(order)}
    last = len(ranks)  # a name that has come since
    return (
        lambda number: ranks.get(numbers[number], last),
        lambda number: numbers[number] >= len(names) or bool(names[numbers[number]]),
    )
