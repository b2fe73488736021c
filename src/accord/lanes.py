"""Lanes: what arrives for one session is handled in the order it came.

A lane exists only while something of its session is being awaited. Without lanes everything is
handled at once, so the promise costs nothing where handlers are plain functions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias

__all__ = ("Lane", "LaneKey", "Lanes")

LaneKey: TypeAlias = Any  # a session id, or None for what belongs to no session

_current: ContextVar[tuple[Lane, int] | None] = ContextVar("accord_lane", default=None)


class Lane:
    """What waits behind the handler of one session that runs now."""

    __slots__ = ("key", "turn", "waiting")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.turn = 0  # counts the handlers that have returned
        self.waiting: deque[tuple[int, Callable[[], Awaitable[None] | None]]] = deque()


class Lanes:
    """The lanes of one connection; `spawn` owns their tasks, `drained` is told of room."""

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], Any],
        drained: Callable[[], None],
    ) -> None:
        self._lanes: dict[LaneKey, Lane] = {}
        self._spawn = spawn
        self._drained = drained
        self.items = 0
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def busy(self, key: LaneKey) -> Lane | None:
        """Return the lane that new work of this session must join, if there is one."""
        return self._lanes.get(key)

    def put(self, lane: Lane, size: int, work: Callable[[], Awaitable[None] | None]) -> None:
        """Let work wait for its turn; what it returns is awaited before the next."""
        lane.waiting.append((size, work))
        self.items += 1
        self.size_bytes += size

    def open(self, key: LaneKey, first: Awaitable[None]) -> None:
        """Open the lane of a session with a handler that has to be awaited."""
        lane = self._lanes[key] = Lane(key)
        self._spawn(self._run(lane, first))

    async def _run(self, lane: Lane, first: Awaitable[None]) -> None:
        try:
            running: Awaitable[None] | None = first
            while True:
                if running is not None:
                    _current.set((lane, lane.turn))
                    await running
                lane.turn += 1
                if not lane.waiting:
                    return
                size, work = lane.waiting.popleft()
                self.items -= 1
                self.size_bytes -= size
                running = work()
                self._drained()
        finally:
            for size, _ in lane.waiting:  # only when the lane was cancelled
                self.items -= 1
                self.size_bytes -= size
            if self._lanes.get(lane.key) is lane:
                del self._lanes[lane.key]


def running_handler() -> tuple[Lane, int] | None:
    """Return the handler on whose behalf this code runs, if it is one that holds a lane."""
    place = _current.get()
    if place is not None and place[0].turn == place[1]:
        return place
    return None
