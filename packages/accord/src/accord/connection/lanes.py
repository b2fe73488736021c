"""Lanes: the messages of a session are handled in the order in which they arrived.

A lane exists only while a handler of its session is being awaited. Without a lane, messages are
handled immediately, so plain functions as handlers cost nothing extra.
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

MAX_LANES = 4096  # of a connection

_current: ContextVar[LaneHolder | None] = ContextVar("accord_lane", default=None)


class Item(Protocol):
    """A message that waits for its turn; `size` is in bytes."""

    method: str
    size: int
    is_request: bool


class Lane:
    """The queue of one session's messages that wait for its running handler."""

    __slots__ = ("backlog", "calls", "key", "task", "turn", "waiting")

    def __init__(self, key: Any) -> None:
        self.key: Any = key
        self.backlog: Backlog | None = None  # created for the first waiting item
        self.turn: int = 0  # the number of handlers that have returned
        self.calls: int = 0  # pending calls of the running handler
        self.waiting: deque[Item] = deque()
        self.task: asyncio.Task[None] | None = None


class LaneHolder:
    """A handler that holds a lane; its calls refer to it."""

    __slots__ = ("_lane", "_lanes", "_turn")

    def __init__(self, lanes: Lanes, lane: Lane) -> None:
        self._lanes = lanes
        self._lane = lane
        self._turn = lane.turn

    @staticmethod
    def current() -> LaneHolder | None:
        """Return the handler that runs this code, if it still holds its lane."""
        caller = _current.get()
        return caller if caller is not None and caller.still_runs else None

    @property
    def still_runs(self) -> bool:
        return self._lane.turn == self._turn

    @property
    def session(self) -> Any:
        return self._lane.key

    def begin_call(self) -> None:
        """Count a call. The peer's requests must not wait for a handler that waits for the peer."""
        self._lane.calls += 1
        self._lanes.release_requests(self._lane)

    def end_call(self) -> None:
        if self.still_runs:
            self._lane.calls -= 1


class Lanes:
    """The lanes of one connection.

    `begin(item)` handles an item; it may return an awaitable that the next item waits for.
    `dropped(item)` is called if the lane is cancelled first, `refused(item, error)` for items that
    arrive after the backlog of the lane was exceeded, and `exceeded(key, error)` once for such a
    lane.
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
        self.by_key: dict[Any, Lane] = {}  # lanes that accept messages
        self._tasks = tasks
        self._backlogs = backlogs
        self._begin = begin
        self._dropped = dropped
        self._refused = refused
        self._exceeded = exceeded

    def find(self, key: Any, *, is_request: bool) -> Lane | None:
        """Return the lane that a message must wait in, or None.

        Each lane needs a task, and a peer can name any number of sessions. Above `MAX_LANES`,
        the notifications of further sessions share the lane of messages without a session.
        """
        lane = self.by_key.get(key)
        if lane is None and not is_request and len(self.by_key) >= MAX_LANES:
            return self.by_key.get(None)
        return lane

    def enqueue(self, lane: Lane, item: Item) -> None:
        """Append an item to a lane."""
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
        """Start the waiting requests: the running handler may depend on them."""
        requests = [item for item in lane.waiting if item.is_request]
        if requests:
            lane.waiting = deque(item for item in lane.waiting if not item.is_request)
            for item in requests:
                _count_removed(lane, item)
                self._begin(item)

    def remove_matching(self, matches: Callable[[Any], bool]) -> list[Any]:
        """Remove the items that match, and return them."""
        found: list[Any] = []
        for lane in self.by_key.values():
            if taken := [item for item in lane.waiting if matches(item)]:
                lane.waiting = deque(item for item in lane.waiting if not matches(item))
                for item in taken:
                    _count_removed(lane, item)
                found += taken
        return found

    def open(self, key: Any, method: str, first: Awaitable[None]) -> None:
        """Open the lane of a session for a handler that must be awaited."""
        if len(self.by_key) >= MAX_LANES:
            key = None
        lane = self.by_key[key] = Lane(key)
        lane.task = self._tasks.spawn(self._run(lane, method, first), name=f"accord lane {key}")
        lane.task.add_done_callback(lambda task: self._abandon(lane, first, task))

    async def wait_empty(self, timeout_s: float) -> None:
        """Wait until all lanes are empty."""
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
                        "! the handler of %s awaited a cancelled task", method, exc=exc
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
        """Clean up a cancelled lane."""
        if not task.cancelled():
            return
        discard(first)
        if self.by_key.get(lane.key) is lane:
            del self.by_key[lane.key]
        for item in lane.waiting:
            _count_removed(lane, item)
            self._dropped(item)


def _cancels() -> int:
    """Return the number of cancel requests of the task; a `TaskGroup` may leave some behind."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _count_removed(lane: Lane, item: Item) -> None:
    assert lane.backlog is not None, "an item waits"
    lane.backlog.remove(item.size)
