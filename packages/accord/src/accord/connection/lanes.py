"""Lanes: the messages of a session are handled in the order in which they arrived.

A lane exists only while a handler of its session is being awaited. Without a lane, messages are
handled immediately, so plain functions as handlers cost nothing extra. `Backlog` counts and bounds
what waits in lanes; `Flow` decides when the connection pauses reading.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from msgspec import UNSET, Struct

from accord.connection.limits import FloodLog, Limits
from accord.connection.routes import Route
from accord.connection.tasks import Tasks, discard, ends_process, is_dropped
from accord.errors import BacklogExceeded
from accord.jsonrpc.message import Response
from accord.text.excerpt import excerpt
from accord.transports.base import Transport

# Counts the received messages that wait for a consumer, by session, and bounds them.
#
# Above the first bound of a session, the connection pauses reading if that delays only slow
# consumers. Above the second bound, the session's consumer fails.

_ITEM_BYTES = 300  # approximate memory of a waiting message in addition to its text


class Backlog:
    """The messages that wait for one consumer of a session.

    `exceeded` is called once with the error when the second bound is exceeded. `calls` is the
    number of pending calls whose responses the consumer handles after these messages.
    """

    __slots__ = (
        "_backlogs",
        "_max_bytes",
        "_max_items",
        "calls",
        "error",
        "exceeded",
        "is_full",
        "is_lane",
        "items",
        "session",
        "size_bytes",
    )

    def __init__(
        self,
        backlogs: Backlogs,
        session: Any,
        exceeded: Callable[[BacklogExceeded], None],
        *,
        is_lane: bool,
    ) -> None:
        self.session: Any = session
        self.exceeded: Callable[[BacklogExceeded], None] = exceeded
        self.is_lane: bool = is_lane
        self.items: int = 0
        self.size_bytes: int = 0
        self.calls: int = 0
        self.is_full: bool = False
        self.error: BacklogExceeded | None = None
        self._backlogs = backlogs
        limits = backlogs.limits
        self._max_items = min(limits.backlog_messages, limits.max_backlog_messages)
        self._max_bytes = min(limits.backlog_bytes, limits.max_backlog_bytes)

    def add(self, size: int) -> None:
        """Count a message that starts to wait."""
        size += _ITEM_BYTES
        self.items += 1
        self.size_bytes += size
        backlogs = self._backlogs
        backlogs.size_bytes += size
        if (
            self.items > self._max_items
            or self.size_bytes > self._max_bytes
            or backlogs.size_bytes > backlogs.limits.total_backlog_bytes
        ):
            backlogs.check(self)

    def add_all(self, sizes: Sequence[int]) -> bool:
        """Count several messages; return False, and count none, if a bound would be exceeded."""
        items = self.items + len(sizes)
        added = sum(sizes) + _ITEM_BYTES * len(sizes)
        backlogs = self._backlogs
        if (
            items > self._max_items
            or self.size_bytes + added > self._max_bytes
            or backlogs.size_bytes + added > backlogs.limits.total_backlog_bytes
        ):
            return False
        self.items = items
        self.size_bytes += added
        backlogs.size_bytes += added
        return True

    def remove(self, size: int) -> None:
        """Count a message that the consumer received."""
        size += _ITEM_BYTES
        self.items -= 1
        self.size_bytes -= size
        self._backlogs.size_bytes -= size
        if (
            self.is_full
            and 2 * self.items <= self._max_items
            and 2 * self.size_bytes <= self._max_bytes
        ):
            self.ignore()

    def ignore(self) -> None:
        """Let reading continue regardless of this backlog."""
        if self.is_full:
            self._backlogs.leave(self)

    def move(self, backlogs: Backlogs) -> None:
        """Count the waiting messages on another connection."""
        self.ignore()
        self._backlogs.size_bytes -= self.size_bytes
        self._backlogs = backlogs
        backlogs.size_bytes += self.size_bytes

    def clear(self) -> None:
        """Count no message as waiting."""
        self._backlogs.size_bytes -= self.size_bytes
        self.items = self.size_bytes = 0
        self.ignore()


class Backlogs:
    """The backlogs of one connection. `changed` is called when one is no longer full."""

    def __init__(self, limits: Limits, changed: Callable[[], None]) -> None:
        self.limits = limits
        self.size_bytes = 0  # of all
        self.full: set[Backlog] = set()  # above the first bound
        self._changed = changed

    def open(
        self, session: Any, exceeded: Callable[[BacklogExceeded], None], *, is_lane: bool = False
    ) -> Backlog:
        """Return the backlog of a new consumer."""
        return Backlog(self, session, exceeded, is_lane=is_lane)

    def changed(self) -> None:
        """Decide again whether to read."""
        self._changed()

    def leave(self, backlog: Backlog) -> None:
        """Mark a backlog as not full."""
        backlog.is_full = False
        self.full.discard(backlog)
        self._changed()

    def check(self, backlog: Backlog) -> None:
        """Compare a backlog and the total with the bounds."""
        if backlog.error is not None:
            return
        limits = self.limits
        if backlog.items > limits.backlog_messages or backlog.size_bytes > limits.backlog_bytes:
            backlog.is_full = True
            self.full.add(backlog)
        if backlog.items > limits.max_backlog_messages:
            self._fail(
                backlog, f"more than {limits.max_backlog_messages} messages", "max_backlog_messages"
            )
        elif backlog.size_bytes > limits.max_backlog_bytes and backlog.items > 1:
            what = f"more than {limits.max_backlog_bytes} bytes of messages"
            self._fail(backlog, what, "max_backlog_bytes")
        elif self.size_bytes > limits.total_backlog_bytes:
            largest = max(self.full, key=_size_bytes, default=backlog)
            if largest.items > 1 and largest.error is None:
                what = f"the most of {limits.total_backlog_bytes} bytes of messages of all sessions"
                self._fail(largest, what, "total_backlog_bytes")

    def _fail(self, backlog: Backlog, what: str, limit: str) -> None:
        session = "" if backlog.session is None else f" {excerpt(str(backlog.session))!r}"
        error = BacklogExceeded(
            f"The session{session} has {what} waiting (Limits.{limit}): "
            f"they arrive faster than they are handled",
            limit=limit,
        )
        backlog.error = error
        backlog.exceeded(error)


def _size_bytes(backlog: Backlog) -> int:
    return backlog.size_bytes


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


# Back-pressure: decides when a connection pauses reading.
#
# All sessions share one stream. While reading is paused, the peer can send neither responses nor
# messages of other sessions. So reading pauses only while nothing else is expected from the peer.

_MAX_SESSIONS = 4096  # remembered, to know whether other sessions exist


class Flow:
    """Pauses and resumes reading; `overrun(reason)` is called when the connection must end."""

    def __init__(
        self, transport: Transport, limits: Limits, overrun: Callable[[str], None]
    ) -> None:
        self.backlogs: Backlogs = Backlogs(limits, self.apply_backpressure)
        # Whether a session other than these keeps up. Default: whether another one exists.
        self.reads_others: Callable[[set[Any]], bool] = self._knows_others
        self._transport = transport
        self._limits = limits
        self._overrun = overrun
        self._sessions: set[Any] = set()  # of calls, requests and lanes
        self._calls = 0  # waiting for a response, or to be sent
        self._calls_of: dict[Any, int] = {}  # by session; not those made by its own handlers
        self._senders = 0  # of notifications, waiting for the transport
        self._unread_bytes = 0  # of responses, not read by the peer
        self._paused = False

    def begin_call(self, session: Any, caller: LaneHolder | None) -> None:
        """Count a call that waits for a response: reading must continue."""
        self._calls += 1
        if session is not None:
            self.note_session(session)
        if caller is not None:
            caller.begin_call()
        else:
            self._calls_of[session] = self._calls_of.get(session, 0) + 1
        if self._paused:
            self.apply_backpressure()

    def end_call(self, session: Any, caller: LaneHolder | None) -> None:
        """Count a call as finished or abandoned."""
        self._calls -= 1
        if caller is not None:
            caller.end_call()
        elif self._calls_of[session] == 1:
            del self._calls_of[session]
        else:
            self._calls_of[session] -= 1
        if self.backlogs.full or self._unread_bytes:
            self.apply_backpressure()

    @contextmanager
    def sending(self) -> Generator[None]:
        """Keep reading while a notification waits: the peer may wait to be read itself."""
        self._senders += 1
        if self._paused:
            self.apply_backpressure()
        try:
            yield
        finally:
            self._senders -= 1

    def note_session(self, session: Any) -> None:
        """Remember a session."""
        if len(self._sessions) < _MAX_SESSIONS:
            self._sessions.add(session)

    def add_unread(self, size: int) -> None:
        """Count a response that the peer has not read."""
        self._unread_bytes += size

    def all_read(self) -> None:
        """Count all responses as read."""
        if self._unread_bytes:
            self._unread_bytes = 0
            self.apply_backpressure()

    def after_reading(self) -> None:
        """Pause reading if the backlogs are full."""
        if self.backlogs.full or self._unread_bytes:
            self.apply_backpressure()

    def apply_backpressure(self) -> None:
        """Pause reading while backlogs are full and nothing else is expected from the peer."""
        limits = self._limits
        if self._unread_bytes > limits.total_backlog_bytes:
            self._overrun("The peer sends requests but does not read the responses")
            return
        full = (
            self._unread_bytes > limits.unread_responses_bytes
            or (bool(self.backlogs.full) and not self._starves_others())
        ) and not self._is_awaited()
        if full is not self._paused:
            self._paused = full
            if full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _is_awaited(self) -> bool:
        """Whether something other than a slow consumer waits for the peer."""
        if self._senders:
            return True
        lanes = {backlog.session for backlog in self.backlogs.full if backlog.is_lane}
        behind = sum(self._calls_of.get(session, 0) for session in lanes if session is not None)
        behind += sum(b.calls for b in self.backlogs.full if b.session not in lanes)
        return self._calls > behind

    def _starves_others(self) -> bool:
        return self.reads_others({backlog.session for backlog in self.backlogs.full})

    def _knows_others(self, full: set[Any]) -> bool:
        return any(session not in full for session in self._sessions)


# What waits in a lane: a message or a response of the peer.


class QueuedMessage(Struct, gc=False):
    """A message from the peer that waits in a lane."""

    route: Route
    method: str
    params: Any
    request_id: Any
    size: int

    @property
    def is_request(self) -> bool:
        return self.request_id is not UNSET


class QueuedResponse(Struct, gc=False):
    """A response from the peer that waits in a lane."""

    answer: Response
    method: str
    size: int
    is_request: bool = False
