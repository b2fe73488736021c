"""Counts the received messages that wait for a consumer, by session, and bounds them.

Above the first bound of a session, the connection pauses reading if that delays only slow
consumers. Above the second bound, the session's consumer fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from accord.connection.limits import Limits
from accord.errors import BacklogExceeded
from accord.text.excerpt import excerpt

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
