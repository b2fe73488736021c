"""Lanes: what arrives for one session is handled in the order it came.

A lane exists only while something of its session is being awaited. Without lanes everything is
handled at once, so the promise costs nothing where handlers are plain functions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from accord.connection.backlog import Backlog, Backlogs
from accord.connection.flood_log import FloodLog
from accord.connection.tasks import Tasks, discard, ends_process, is_dropped
from accord.errors import BacklogExceeded

__all__ = ("MAX_LANES", "Item", "Lane", "LaneHolder", "Lanes")

MAX_LANES = 4096  # of a connection

_current: ContextVar[LaneHolder | None] = ContextVar("accord_lane", default=None)


class Item(Protocol):
    """Something that came and is to be handled in order; `size` in bytes."""

    method: str
    size: int
    is_request: bool


class Lane:
    """What waits behind the handler of one session that runs now."""

    __slots__ = ("backlog", "calls", "key", "task", "turn", "waiting")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.backlog: Backlog | None = None  # from the first item that waits
        self.turn = 0  # counts the handlers that have returned
        self.calls = 0  # that the running handler waits for
        self.waiting: deque[Item] = deque()
        self.task: asyncio.Task[None] | None = None


class LaneHolder:
    """A handler that holds a lane, as seen by the calls it makes."""

    __slots__ = ("_lane", "_lanes", "_turn")

    def __init__(self, lanes: Lanes, lane: Lane) -> None:
        self._lanes = lanes
        self._lane = lane
        self._turn = lane.turn

    @staticmethod
    def current() -> LaneHolder | None:
        """Return the handler on whose behalf this code runs, if it still holds its lane."""
        caller = _current.get()
        return caller if caller is not None and caller.still_runs else None

    @property
    def still_runs(self) -> bool:
        return self._lane.turn == self._turn

    @property
    def session(self) -> Any:
        return self._lane.key

    def begin_call(self) -> None:
        """The handler waits for the peer: requests of the peer must not wait for the handler."""
        self._lane.calls += 1
        self._lanes.release_requests(self._lane)

    def end_call(self) -> None:
        if self.still_runs:
            self._lane.calls -= 1


class Lanes:
    """The lanes of one connection.

    `begin(item)` handles an item and returns what has to be awaited before the next, if
    anything; `dropped` is called with each item that will not be handled because the lane was
    cancelled, `refused` with each that comes after the bounds of its lane's backlog were
    exceeded, `exceeded` once with the key of such a lane.
    """

    def __init__(
        self,
        tasks: Tasks,
        backlogs: Backlogs,
        *,
        begin: Callable[[Any], Awaitable[None] | None],
        dropped: Callable[[Any], None],
        refused: Callable[[Any, BacklogExceeded], None],
        exceeded: Callable[[Any, BacklogExceeded], None],
        flood_log: FloodLog,
    ) -> None:
        self._log = flood_log
        self.by_key: dict[Any, Lane] = {}  # those that new work has to join
        self._tasks = tasks
        self._backlogs = backlogs
        self._begin = begin
        self._dropped = dropped
        self._refused = refused
        self._exceeded = exceeded

    def find(self, key: Any, *, is_request: bool) -> Lane | None:
        """Return the lane that a message has to join, if there is one.

        Beyond `MAX_LANES`, notifications of further sessions share the lane of no session: each
        lane takes a task, and a peer can name any number of sessions.
        """
        lane = self.by_key.get(key)
        if lane is None and not is_request and len(self.by_key) >= MAX_LANES:
            return self.by_key.get(None)
        return lane

    def enqueue(self, lane: Lane, item: Item) -> None:
        """Let an item wait for its turn."""
        if item.is_request and lane.calls:
            self._begin(item)
            return
        backlog = lane.backlog
        if backlog is None:
            backlog = lane.backlog = self._backlogs.open(
                lane.key, partial(self._exceeded, lane.key), is_lane=True
            )
        if backlog.error is not None:
            self._refused(item, backlog.error)
            return
        lane.waiting.append(item)
        backlog.add(item.size)

    def release_requests(self, lane: Lane) -> None:
        """Begin the requests that wait: a handler may be waiting for what they lead to."""
        requests = [item for item in lane.waiting if item.is_request]
        if requests:
            lane.waiting = deque(item for item in lane.waiting if not item.is_request)
            for item in requests:
                _count_removed(lane, item)
                self._begin(item)

    def remove_matching(self, matches: Callable[[Any], bool]) -> list[Any]:
        """Take out the items that match, so that their turn does not come; return them."""
        found: list[Any] = []
        for lane in self.by_key.values():
            if taken := [item for item in lane.waiting if matches(item)]:
                lane.waiting = deque(item for item in lane.waiting if not matches(item))
                for item in taken:
                    _count_removed(lane, item)
                found += taken
        return found

    def open(self, key: Any, method: str, first: Awaitable[None]) -> None:
        """Open the lane of a session with a handler that has to be awaited."""
        if len(self.by_key) >= MAX_LANES:
            key = None
        lane = self.by_key[key] = Lane(key)
        lane.task = self._tasks.spawn(self._run(lane, method, first), name=f"accord lane {key}")
        lane.task.add_done_callback(lambda task: self._abandon(lane, first, task))

    async def wait_empty(self, timeout_s: float) -> None:
        """Let what has come be handled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while running := [lane.task for lane in self.by_key.values() if lane.task]:
                    await asyncio.wait(running)

    async def _run(self, lane: Lane, method: str, first: Awaitable[None]) -> None:
        running: Awaitable[None] | None = first
        while True:
            if running is not None:
                _current.set(LaneHolder(self, lane))
                cancelled_before = _cancels()
                try:
                    await running
                except asyncio.CancelledError as exc:
                    if _cancels() > cancelled_before:
                        raise
                    self._log.exception(
                        "! the handler of %s awaited what was cancelled", method, exc=exc
                    )
                except BaseException as exc:
                    if is_dropped(exc, lane.task) or ends_process(exc):
                        raise
                    self._log.exception("! the handler of %r failed", method, exc=exc, about=method)
            lane.turn += 1
            lane.calls = 0
            if not lane.waiting:
                del self.by_key[lane.key]
                return
            item = lane.waiting.popleft()
            _count_removed(lane, item)
            method = item.method
            running = self._begin(item)

    def _abandon(self, lane: Lane, first: Awaitable[None], task: asyncio.Task[None]) -> None:
        """Clean up behind a lane that was cancelled."""
        if not task.cancelled():
            return
        discard(first)
        if self.by_key.get(lane.key) is lane:
            del self.by_key[lane.key]
        for item in lane.waiting:
            _count_removed(lane, item)
            self._dropped(item)


def _cancels() -> int:
    """Return how often the task was cancelled; what a `TaskGroup` leaves of that is not ours."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _count_removed(lane: Lane, item: Item) -> None:
    assert lane.backlog is not None, "an item waits"
    lane.backlog.remove(item.size)
