"""The messages of one recording, and the parts of them that filters select."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from accord.trace.records import Record
from accord_inspector.errors import ApiError
from accord_inspector.memory_index import MemoryIndex
from accord_inspector.queries import Query
from accord_inspector.rows import Row

__all__ = ("Messages", "View")

_PART_BYTES = 256 * 1024  # that are read before others run
_PART_S = 0.01  # for which a filter runs before others run
_VIEWS = 16  # that are kept
_LOOK_S = 0.5  # between two looks at a file that another process writes


class Messages:
    """The messages of a recording, numbered from 0; `follow` reads them.

    `grows` says that the recording is still written.
    """

    def __init__(self, path: Path, *, grows: bool = False) -> None:
        self.path: Path = path
        self.grows: bool = grows
        self.is_read: bool = False  # whether everything that is written has been read
        self._index = MemoryIndex(path, grows=grows)
        self._views: OrderedDict[Query, View] = OrderedDict()
        self._written = asyncio.Event()
        self._observers: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        return len(self._index)

    def row(self, n: int) -> Row:
        """Return what the page lists of a message; raise `ApiError` for an unknown number."""
        self._check(n)
        return self._index.row(n)

    def record(self, n: int) -> Record:
        """Return a message; raise `ApiError` for an unknown number."""
        self._check(n)
        return self._index.record(n)

    def view(self, query: Query) -> View:
        """Return the messages that a filter selects."""
        view = self._views.pop(query, None) or View(self, query)
        self._views[query] = view
        if len(self._views) > _VIEWS:
            self._views.popitem(last=False)
        return view

    def observe(self, observer: Callable[[int], None]) -> None:
        """Call this with the number of messages when there are more."""
        self._observers.append(observer)

    def written(self) -> None:
        """Note that this process has written more of the recording."""
        self._written.set()

    async def follow(self) -> None:
        """Read the recording until it is cancelled, in short parts; of a growing one, what comes.

        Errors of files are raised.
        """
        while True:
            before = len(self._index)
            self._written.clear()
            self.is_read = self._index.advance(_PART_BYTES)
            if len(self._index) != before or self.is_read:
                for observer in self._observers:
                    observer(len(self._index))
            if not self.is_read:
                await asyncio.sleep(0)
                continue
            if not self.grows:
                return
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._written.wait()
            except TimeoutError:
                pass

    def close(self) -> None:
        """Close the files."""
        self._index.close()

    def _check(self, n: int) -> None:
        if not 0 <= n < len(self._index):
            raise ApiError(404, f"Unknown message {n}: the recording has {len(self._index)}")


class View:
    """The numbers of the messages that a filter selects, in order."""

    def __init__(self, messages: Messages, query: Query) -> None:
        self.query: Query = query
        self._messages = messages
        self._found: array[int] = array("I")
        self._seen = 0  # messages that were examined

    def __len__(self) -> int:
        return len(self._messages) if self.query.is_empty else len(self._found)

    @property
    def is_complete(self) -> bool:
        """Whether every message that was read has been examined."""
        return self.query.is_empty or self._seen >= len(self._messages)

    def advance(self, limit_s: float = _PART_S) -> bool:
        """Examine more messages for a limited time; return whether the view is complete."""
        if self.is_complete:
            return True
        query, messages, end = self.query, self._messages, perf_counter() + limit_s
        for n in range(self._seen, len(messages)):
            if query.fits_row(messages.row(n)) and (
                not query.reads_records or query.fits_record(messages.record(n))
            ):
                self._found.append(n)
            self._seen = n + 1
            if perf_counter() >= end:
                return False
        return True

    async def complete(self, limit_s: float) -> bool:
        """Examine all messages, but not longer than this; return whether the view is complete."""
        end = perf_counter() + limit_s
        while not self.advance():
            if perf_counter() >= end:
                return False
            await asyncio.sleep(0)
        return True

    def number(self, position: int) -> int:
        """Return the number of the message at a position of the list."""
        return position if self.query.is_empty else self._found[position]

    def position(self, n: int) -> int | None:
        """Return the position of a message in the list; None if it is not selected."""
        if self.query.is_empty:
            return n if n < len(self._messages) else None
        position = bisect_left(self._found, n)
        if position < len(self._found) and self._found[position] == n:
            return position
        return None

    def rows(self, first: int, count: int) -> Iterator[Row]:
        """Yield a window of the list."""
        for position in range(max(first, 0), min(first + count, len(self))):
            yield self._messages.row(self.number(position))
