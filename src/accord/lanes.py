"""Lanes: what arrives for one session is handled in the order it came.

A lane exists only while something of its session is being awaited. Without lanes everything is
handled at once, so the promise costs nothing where handlers are plain functions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from accord.tasks import Tasks, discard

__all__ = ("Asker", "Lane", "Lanes")

Work = Callable[[], Awaitable[None] | None]

_current: ContextVar[Asker | None] = ContextVar("accord_lane", default=None)


class Lane:
    """What waits behind the handler of one session that runs now."""

    __slots__ = ("calls", "key", "turn", "waiting")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.turn = 0  # counts the handlers that have returned
        self.calls = 0  # that the running handler waits for
        self.waiting: deque[tuple[int, bool, Work]] = deque()


class Asker:
    """A handler that holds a lane, as seen by the calls it makes."""

    __slots__ = ("_lane", "_lanes", "_turn")

    def __init__(self, lanes: Lanes, lane: Lane) -> None:
        self._lanes = lanes
        self._lane = lane
        self._turn = lane.turn

    @staticmethod
    def current() -> Asker | None:
        """Return the handler on whose behalf this code runs, if it still holds its lane."""
        asker = _current.get()
        return asker if asker is not None and asker.still_runs else None

    @property
    def still_runs(self) -> bool:
        return self._lane.turn == self._turn

    def begin_call(self) -> None:
        """The handler waits for the peer: requests of the peer must not wait for the handler."""
        self._lane.calls += 1
        self._lanes.let_requests_pass(self._lane)

    def end_call(self) -> None:
        if self.still_runs:
            self._lane.calls -= 1


class Lanes:
    """The lanes of one connection; `drained` is told whenever something left one."""

    def __init__(self, tasks: Tasks, drained: Callable[[], None]) -> None:
        self._lanes: dict[Any, Lane] = {}
        self._tasks = tasks
        self._drained = drained
        self.items = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def busy(self, key: Any) -> Lane | None:
        """Return the lane that new work of this session has to join, if there is one."""
        return self._lanes.get(key)

    def put(self, lane: Lane, size: int, work: Work, *, is_request: bool = False) -> None:
        """Let work wait for its turn; what it returns is awaited before the next."""
        if is_request and lane.calls:
            work()
            return
        lane.waiting.append((size, is_request, work))
        self.items += 1
        self.size_bytes += size

    def let_requests_pass(self, lane: Lane) -> None:
        """Begin the requests that wait: a handler may be waiting for what they lead to."""
        requests = [entry for entry in lane.waiting if entry[1]]
        if requests:
            lane.waiting = deque(entry for entry in lane.waiting if not entry[1])
            for size, _, work in requests:
                self._left(size)
                work()

    def open(self, key: Any, first: Awaitable[None]) -> None:
        """Open the lane of a session with a handler that has to be awaited."""
        lane = self._lanes[key] = Lane(key)
        task = self._tasks.spawn(self._run(lane, first), name=f"accord lane {key}")
        task.add_done_callback(lambda task: self._abandon(lane, first, task))

    async def _run(self, lane: Lane, first: Awaitable[None]) -> None:
        running: Awaitable[None] | None = first
        while True:
            if running is not None:
                _current.set(Asker(self, lane))
                await running
            lane.turn += 1
            lane.calls = 0
            if not lane.waiting:
                del self._lanes[lane.key]
                return
            size, _, work = lane.waiting.popleft()
            self._left(size)
            running = work()
            self._drained()

    def _left(self, size: int) -> None:
        self.items -= 1
        self.size_bytes -= size

    def _abandon(self, lane: Lane, first: Awaitable[None], task: asyncio.Task[None]) -> None:
        """Clean up behind a lane that was cancelled."""
        if not task.cancelled():
            return
        discard(first)
        for size, _, _ in lane.waiting:
            self._left(size)
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
