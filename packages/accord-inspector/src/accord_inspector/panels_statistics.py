"""Statistics of a recording, counted in short parts while it grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec

from accord_trace.records import Record
from accord_trace.stats import StatsCounter

_LISTED = 1000  # turns, tool calls and points of the context, the latest
_BUCKETS = 240
_PART_S = 0.02  # for which is counted before others run


class UpdateRate:
    """Updates per second over time, in at most 240 equal spans."""

    def __init__(self) -> None:
        self.span_s: float = 0.25
        self.counts: list[int] = []

    def add(self, ts: float) -> None:
        """Count an update at a second of the recording."""
        place = int(max(ts, 0.0) / self.span_s)
        while place >= _BUCKETS:
            if len(self.counts) % 2:
                self.counts.append(0)
            pairs = zip(self.counts[::2], self.counts[1::2], strict=True)
            self.counts = [first + second for first, second in pairs]
            self.span_s *= 2
            place = int(max(ts, 0.0) / self.span_s)
        while place >= len(self.counts):
            self.counts.append(0)
        self.counts[place] += 1

    def points(self) -> list[tuple[float, float]]:
        """Return the start of each span, and the updates per second in it."""
        return [
            (round(place * self.span_s, 3), round(count / self.span_s, 3))
            for place, count in enumerate(self.counts)
        ]


class RunningStatistics:
    """Counts the records of a recording; `record` returns one by its number."""

    def __init__(self, record: Callable[[int], Record], length: Callable[[], int]) -> None:
        self.read: int = 0  # records that were counted
        self._record = record
        self._length = length
        self._counter = StatsCounter()
        self._rate = UpdateRate()

    @property
    def is_complete(self) -> bool:
        """Whether all records are counted."""
        return self.read >= self._length()

    def advance(self, limit_s: float) -> bool:
        """Count more records for a limited time; return whether all are counted."""
        end = perf_counter() + limit_s
        for n in range(self.read, self._length()):
            record = self._record(n)
            self._counter.add(record)
            if record.method == "session/update" and record.type == "notification":
                self._rate.add(record.ts)
            self.read = n + 1
            if not n % 16 and perf_counter() >= end:
                break
        return self.is_complete

    async def complete(self, limit_s: float) -> None:
        """Count more records for a limited time, while others run, too."""
        end = perf_counter() + limit_s
        while not self.advance(_PART_S):
            if perf_counter() >= end:
                break
            await asyncio.sleep(0)

    def result(self) -> dict[str, Any]:
        """Return the statistics so far; of long lists the end."""
        stats = self._counter.result()
        value: dict[str, Any] = msgspec.to_builtins(stats)
        for name in ("turns", "tool_calls", "context"):
            value[f"{name}_count"] = len(value[name])
            value[name] = value[name][-_LISTED:]
        return {
            **value,
            "rate": self._rate.points(),
            "read": self.read,
            "total": self._length(),
            "complete": self.is_complete,
        }
