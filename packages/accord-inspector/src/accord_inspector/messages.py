"""The messages of one recording as it grows, the parts that filters select, and their order."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from accord.text.lenient_json import is_object
from accord_terminal.conversation import ApiError
from accord_trace.columns import NONE, Columns
from accord_trace.message_index import MessageIndex, MessageRow
from accord_trace.reading import trace_files
from accord_trace.records import Record
from accord_trace.selection import Filter

_PART_BYTES = 1024 * 1024  # that are read before others run
_TEXT_BYTES = 1024 * 1024  # that are searched before others run
_PATH_BYTES = 64 * 1024  # that are decoded before others run
_VIEWS = 16  # that are kept
_COLLECT_S = 0.05  # for which messages are collected before they are read
_LOOK_S = 0.5  # between two looks at a file that another process writes
_CHECK_S = 0.5  # for a message that was not read yet


class Messages:
    """The messages of a recording, numbered from 0; `follow` reads them.

    `grows` says that this process writes the recording. Raise `TraceError` if it cannot be read.
    """

    def __init__(self, path: Path, *, grows: bool = False) -> None:
        self.path: Path = path
        self.grows: bool = grows
        self.is_read: bool = False  # whether everything that is written has been read
        self.index: MessageIndex = MessageIndex(trace_files(path))
        self._views: OrderedDict[Filter, View] = OrderedDict()
        self._written = asyncio.Event()
        self._observers: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        return len(self.index)

    def row(self, n: int) -> MessageRow:
        """Return what the page lists of a message; raise `ApiError` for an unknown number."""
        self._check(n)
        return self.index.row(n)

    def record(self, n: int) -> Record:
        """Return a message; raise `ApiError` for an unknown number."""
        self._check(n)
        return self.index.record(n)

    def view(self, wanted: Filter) -> View:
        """Return the messages that a filter selects."""
        view = self._views.pop(wanted, None)
        if view is None:  # an empty one is false
            view = View(self.index, wanted)
        self._views[wanted] = view
        if len(self._views) > _VIEWS:
            self._views.popitem(last=False)
        return view

    def observe(self, observer: Callable[[int], None]) -> None:
        """Call this with the number of messages when there are more."""
        self._observers.append(observer)

    def written(self) -> None:
        """Note that this process has written more of the recording."""
        self._written.set()

    def read_written(self) -> None:
        """Read now what is written."""
        while not self._advance():
            pass

    def _advance(self) -> bool:
        before = len(self.index)
        was_read = self.is_read
        # In a thread, a large file would be read slower, because the page waits for it.
        self.is_read = self.index.advance(_PART_BYTES)
        if len(self.index) != before or self.is_read != was_read:
            for observer in self._observers:
                observer(len(self.index))
        return self.is_read

    async def follow(self) -> None:
        """Read the recording, in short parts, and what is written to it, until it is cancelled.

        Raise `TraceError` if it cannot be read.
        """
        while True:
            self._written.clear()
            if not self._advance():
                await asyncio.sleep(0)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._written.wait()
            await asyncio.sleep(_COLLECT_S)

    def close(self) -> None:
        """Close the files."""
        self.index.close()

    def _check(self, n: int) -> None:
        # The first requests of a page may come before the recording was read up to this message.
        until = perf_counter() + _CHECK_S
        while n >= len(self.index) and not self._advance() and perf_counter() < until:
            pass
        if not 0 <= n < len(self.index):
            raise ApiError(404, f"Unknown message {n + 1}: the recording has {len(self.index)}")


class View:
    """The numbers of the messages that a filter selects, in order."""

    def __init__(self, index: MessageIndex, wanted: Filter) -> None:
        self._index = index
        self._selection = None if wanted == Filter() else index.selection(wanted)
        self._step_bytes = _PATH_BYTES if wanted.json_path else _TEXT_BYTES
        self._watchers = 0

    def __len__(self) -> int:
        return len(self._index if self._selection is None else self._selection.rows)

    @property
    def is_complete(self) -> bool:
        """Whether every message that was read has been looked at."""
        return self._selection is None or self._selection.looked_at >= len(self._index)

    def advance(self) -> bool:
        """Look at more messages for a few milliseconds; return whether the view is complete."""
        return self._selection is None or self._selection.advance(self._step_bytes)

    def watched(self) -> None:
        """Note that a page shows this, until `left`."""
        self._watchers += 1

    def left(self) -> None:
        """Note that a page does not show this any more; after the last one, it is not searched."""
        self._watchers -= 1
        if self._watchers == 0 and self._selection is not None:
            self._selection.rest()

    async def complete(self, limit_s: float) -> bool:
        """Look at all messages, but not longer than this; return whether the view is complete."""
        end = perf_counter() + limit_s
        while not self.advance():
            if perf_counter() >= end:
                return False
            await asyncio.sleep(0)
        return True

    def number(self, position: int) -> int:
        """Return the number of the message at a position of the list."""
        return position if self._selection is None else self._selection.rows[position]

    def numbers(self) -> Sequence[int]:
        """Return the numbers of all messages of the list."""
        return range(len(self._index)) if self._selection is None else self._selection.rows[:]

    def position(self, n: int) -> int | None:
        """Return the position of a message in the list; None if it is not selected."""
        if self._selection is None:
            return n if n < len(self._index) else None
        rows = self._selection.rows
        position = bisect_left(rows, n)
        return position if position < len(rows) and rows[position] == n else None

    def position_from(self, n: int) -> int | None:
        """Return the position of the first message from number `n` on; None without one."""
        position = n if self._selection is None else bisect_left(self._selection.rows, n)
        return position if position < len(self) else None

    def rows(self, first: int, count: int) -> Iterator[MessageRow]:
        """Yield a window of the list."""
        for position in range(max(first, 0), min(first + count, len(self))):
            yield self._index.row(self.number(position))


def row_json(row: MessageRow) -> dict[str, Any]:
    """Return a row for the page: `n` counts from 0, `pair` is the response or the request.

    `ts` is in seconds since the start of the recording, `seconds` the latency of a response.
    """
    found: dict[str, Any] = {
        "n": row.number,
        "ts": row.ts,
        "kind": row.kind,
        "dir": row.direction,
        "from": row.sender,
        "to": row.receiver,
        "method": row.method,
        "bytes": row.bytes,
        "conn": row.conn,
    }
    if row.id:
        found["id"] = row.id
    if row.session is not None:
        found["session"] = row.session
    if row.is_error:
        found["error"] = True
    if row.pair is not None:
        found["pair"] = row.pair
    if row.latency_s is not None:
        found["seconds"] = row.latency_s
    return found


_LOOKED = 2000  # messages, from the end and from the start


def last_initialize(messages: Messages) -> int | None:
    """Return the number of the last `initialize` request; it is near the end or the start."""
    count = len(messages)
    for numbers in (
        range(count - 1, max(count - _LOOKED, 0) - 1, -1),
        range(min(_LOOKED, count) - 1, -1, -1),
    ):
        for n in numbers:
            row = messages.row(n)
            if row.kind == "request" and row.method == "initialize":
                return n
    return None


def spoken_version(messages: Messages) -> int:
    """Return the version of the protocol that the agent has chosen; 1 if that is unknown."""
    n = last_initialize(messages)
    pair = None if n is None else messages.row(n).pair
    value = None if pair is None else messages.record(pair).value()
    version = value.get("protocolVersion") if is_object(value) else None
    return version if version in (1, 2) else 1


# The messages of a view in the order of a column.

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
