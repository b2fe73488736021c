"""Selects messages by the columns of an index, and only then by what they contain.

A `Filter` says what to select.
"""

from __future__ import annotations

import os
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import compress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from accord_trace.columns import NONE, Columns, flag_table
from accord_trace.records import Direction, Kind
from accord_trace.search import Block, JsonPath, Lines, SearchRequest, SecondSearch, TextSearch


class Filter(Struct, frozen=True, kw_only=True):
    """What to select; a message must meet every condition that is set.

    A response has the method and the session of its request. `methods` are patterns such as
    `session/*`; `sessions` are ids. `hops` are pairs of components, such as `("Client",
    "Proxy(0)")`, between which a message passed in either direction. `errors` selects error
    responses and frames that are not messages. `since` and `until` are seconds since the start.
    `min_latency_s` selects responses that took at least as long. `text` is searched in the method
    and in the params, the result or the error, in any case. `json_path` (RFC 9535) selects the
    messages in which it finds something; `$` is the message. `rows` has the numbers, from 0 on, of
    the messages that can be selected at all.
    """

    methods: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    direction: Direction | None = None
    kinds: tuple[Kind, ...] = ()
    hops: tuple[tuple[str, str], ...] = ()
    errors: bool = False
    since: float | None = None
    until: float | None = None
    min_latency_s: float | None = None
    text: str = ""
    json_path: str = ""
    rows: frozenset[int] | None = None


def name_fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a method fits one of the patterns, or there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


_ROWS = 262_144  # of which only columns are looked at in one step
_BYTES = 8 * 1024 * 1024  # that are searched in one step
_RANGE_BYTES = 512 * 1024  # that are searched at once
_SPARSE = 16  # one in so many lines: they are read one by one
_SECOND_BYTES = 64 * 1024 * 1024  # from so many on that are left, a second process searches too
_FIRST_BYTES = 16 * 1024 * 1024  # that are searched before it is started
_PROCESSORS = os.cpu_count() or 1

_Name = TypeVar("_Name")


class _Index(Protocol):
    columns: Columns

    def __len__(self) -> int: ...
    def lines(self, first: int, end: int) -> bytes: ...
    def part_end(self, number: int) -> int: ...
    def place_of(self, number: int) -> tuple[int, int]: ...
    @property
    def paths(self) -> list[Path]: ...


class Selection:
    """The selected messages among those that `advance` has looked at.

    `rows` has their numbers, in order, `looked_at` the number of messages. Raise `TraceError` if
    the JSONPath is not one.
    """

    def __init__(self, index: _Index, wanted: Filter) -> None:
        self.wanted: Filter = wanted
        self.rows: array[int] = array("I")
        self.looked_at: int = 0
        self._index = index
        self._columns = index.columns
        self._flags = _flag_table(wanted)
        self._methods: _Names[str] = _Names(lambda name: name_fits(name, wanted.methods))
        self._sessions: _Names[str | None] = _Names(lambda name: name in wanted.sessions)
        hops = {frozenset(hop) for hop in wanted.hops}
        self._routes: _Names[int] = _Names(lambda at: _ends(index.columns, at) in hops)
        self._numbers = None if wanted.rows is None else sorted(wanted.rows)
        self._text = TextSearch(wanted.text) if wanted.text else None
        self._texted: _Names[str] = _Names(lambda name: wanted.text.casefold() in name.casefold())
        self._path = JsonPath(wanted.json_path) if wanted.json_path else None
        self._path_flags = bytes(256) if self._path is None else flag_table(self._path.may_fit)
        self._second: SecondSearch | None = None
        self._until_second = _FIRST_BYTES  # bytes that are searched before it is started

    def advance(self, limit_bytes: int = _BYTES) -> bool:
        """Look at more messages; return whether these were all that the index has now.

        Only if their contents matter, `limit_bytes` are the most that are searched, unless one
        message is larger.
        """
        first, end = self.looked_at, len(self._index)
        if first >= end:
            return True
        if self._text is None and self._path is None:
            end = min(end, first + _ROWS)
        else:
            end = self._end_of_step(first, end, limit_bytes)
        found = self._by_columns(first, end)
        if self._text is not None or self._path is not None:
            found = self._by_contents(first, end, found)
        self.rows.extend(found)
        self.looked_at = end
        if self._second is not None and end >= self._second.done_from:
            self._second.stop()  # what it would search now is known
        return end >= len(self._index)

    def rest(self) -> None:
        """End the second process; `advance` works as before."""
        if self._second is not None:
            self._second.stop()

    def _end_of_step(self, first: int, end: int, limit_bytes: int) -> int:
        """Return the end of the messages whose contents are searched in one step."""
        second = self._second
        if second is not None and second.done_from <= first < second.end:
            return min(end, first + _ROWS, second.end)
        offsets = self._columns.offsets
        limit = offsets[first] + limit_bytes
        stop = max(bisect_left(offsets, limit, first, min(end, first + _ROWS)), first + 1)
        return stop if second is None or first >= second.end else min(stop, second.done_from)

    def _by_columns(self, first: int, end: int) -> list[int]:
        columns, wanted = self._columns, self.wanted
        masks: list[bytes] = []
        if self._flags is not None:
            masks.append(columns.flags[first:end].tobytes().translate(self._flags))
        if wanted.methods:
            masks.append(self._methods.mask(columns.methods[first:end], columns.method_names))
        if wanted.sessions:
            masks.append(self._sessions.mask(columns.sessions[first:end], columns.session_names))
        if wanted.hops:
            names = range(len(columns.route_names))
            masks.append(self._routes.mask(columns.routes[first:end], names))
        if wanted.since is not None or wanted.until is not None:
            since = float("-inf") if wanted.since is None else wanted.since
            until = float("inf") if wanted.until is None else wanted.until
            masks.append(bytes([since <= ts <= until for ts in columns.times[first:end]]))
        rows = range(first, end)
        if not masks:
            found = list(rows)
        else:
            both = int.from_bytes(masks[0], "little")
            for mask in masks[1:]:
                both &= int.from_bytes(mask, "little")
            found = list(compress(rows, both.to_bytes(end - first, "little")))
        if self._numbers is not None:
            chosen = self._numbers
            some = chosen[bisect_left(chosen, first) : bisect_left(chosen, end)]
            found = sorted(set(some).intersection(found))
        if wanted.min_latency_s is not None:
            least, pairs, times = wanted.min_latency_s, columns.pairs, columns.times
            found = [
                row
                for row in found
                if pairs[row] != NONE and times[row] - times[pairs[row]] >= least
            ]
        return found

    def _by_contents(self, first: int, end: int, found: list[int]) -> list[int]:
        """Return which of the rows that were found have the text, and fit the JSONPath."""
        if len(found) * _SPARSE < end - first:
            return [row for row in found if self._fitting(row, row + 1)]
        fitting: list[int]
        second = self._second
        if second is not None and second.done_from <= first < second.end:
            known = second.rows_between(first, end)
            fitting = known if self._text is None else self._with_named(known, first, end)
        else:
            self._start_second(first, end)
            fitting = list[int]()
            at = first
            while at < end:
                stop = self._stop_of(at, end)
                fitting += self._fitting(at, stop)
                at = stop
        # Both are in order; usually the columns select everything.
        return fitting if len(found) == end - first else sorted(set(fitting).intersection(found))

    def _fitting(self, first: int, end: int) -> Sequence[int]:
        """Return which of rows that follow each other in one part fit by what they contain."""
        columns = self._columns
        lines = Lines(self._index.lines(first, end), columns.offsets, first, end)
        rows: Sequence[int] = lines.rows
        if self._text is not None:
            rows = self._with_named(self._text.rows_in(lines), first, end)
        if self._path is not None and rows:
            rows = self._path.rows_in(lines, rows, self._may_fit)
        return rows

    def _with_named(self, rows: list[int], first: int, end: int) -> list[int]:
        """Add the messages whose method has the text."""
        columns = self._columns
        if not self._texted.has_wanted(columns.method_names):
            return rows
        named = self._texted.mask(columns.methods[first:end], columns.method_names)
        return sorted({*rows, *compress(range(first, end), named)})

    def _may_fit(self, row: int) -> int:
        """Return whether the path can find something in a message of this kind."""
        return self._path_flags[self._columns.flags[row]]

    def _start_second(self, first: int, end: int) -> None:
        """Let a second process search the last messages, if there is much left."""
        offsets = self._columns.offsets
        self._until_second -= offsets[end - 1] - offsets[first]
        is_one = (self._text is None) is not (self._path is None)
        if self._second is not None or self._until_second > 0 or not is_one or _PROCESSORS < 2:
            return
        last = len(self._index)
        if offsets[last - 1] - offsets[end - 1] < _SECOND_BYTES:
            return
        index, blocks, at = self._index, list[Block](), end
        while at < last:
            stop = self._stop_of(at, last)
            part, place = index.place_of(at)
            following = offsets[stop] if stop < last else index.part_end(at)
            size = min(following, index.part_end(at)) - offsets[at]
            blocks.append(Block(at, stop, part, place, size))
            at = stop
        request = SearchRequest(
            self.wanted.text,
            self.wanted.json_path,
            [os.fspath(path) for path in index.paths],
            blocks,
        )
        self._second = SecondSearch(request, offsets[end:last], self._columns.flags[end:last])
        weakref.finalize(self, self._second.stop)

    def _stop_of(self, first: int, end: int) -> int:
        """Return the end of the next messages that are searched at once: they are in one part."""
        offsets = self._columns.offsets
        limit = min(offsets[first] + _RANGE_BYTES, self._index.part_end(first))
        return max(bisect_left(offsets, limit, first, end), first + 1)


class _Names(Generic[_Name]):
    """Which numbers of names are selected; names may be added."""

    def __init__(self, is_wanted: Callable[[_Name], bool]) -> None:
        self._is_wanted = is_wanted
        self._table = bytearray()

    def mask(self, numbers: Sequence[int], names: Sequence[_Name]) -> bytes:
        """Return 1 for each number that is selected, and 0 for others."""
        self._add(names)
        return bytes(map(self._table.__getitem__, numbers))

    def has_wanted(self, names: Sequence[_Name]) -> bool:
        """Return whether one of the names is selected."""
        self._add(names)
        return any(self._table)

    def _add(self, names: Sequence[_Name]) -> None:
        for name in names[len(self._table) :]:
            self._table.append(self._is_wanted(name))


def _ends(columns: Columns, route: int) -> frozenset[str]:
    found = columns.route_names[route]
    return frozenset((found.sender, found.receiver))


def _flag_table(wanted: Filter) -> bytes | None:
    """Return 1 for each value of the flags that is selected; None if all are."""
    only_responses = wanted.min_latency_s is not None
    if not (wanted.kinds or wanted.direction or wanted.errors or only_responses):
        return None

    def fits(kind: Kind, direction: Direction, is_error: bool) -> bool:
        return (
            (not wanted.kinds or kind in wanted.kinds)
            and wanted.direction in (None, direction)
            and (is_error or not wanted.errors)
            and (kind == "response" or not only_responses)
        )

    return flag_table(fits)
