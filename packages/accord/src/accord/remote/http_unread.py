"""The bound on what all HTTP connections of a server hold for clients that do not read."""

from __future__ import annotations

from typing import Protocol


class UnreadHolder(Protocol):
    """A connection with output that was not read."""

    def total_fell(self) -> None:
        """Called when all connections together hold no more than they may."""
        ...


class UnreadTotal:
    """The bytes that all connections of a server hold.

    While they hold more than `limit` together, no connection should hold more than its share, so
    that clients which read are not delayed by those which do not.
    """

    def __init__(self, limit: int) -> None:
        self.size: int = 0
        self._limit = limit
        self._holders: dict[UnreadHolder, None] = {}
        self._waiting: dict[UnreadHolder, None] = {}

    def join(self, holder: UnreadHolder) -> None:
        """Count a connection."""
        self._holders[holder] = None

    def leave(self, holder: UnreadHolder, size: int) -> None:
        """Count a connection no more, nor the bytes that it holds."""
        self._holders.pop(holder, None)
        self._waiting.pop(holder, None)
        self.remove(size)

    def add(self, size: int) -> None:
        """Count bytes that a connection holds."""
        self.size += size

    def remove(self, size: int) -> None:
        """Count bytes no more."""
        was_over = self.size > self._limit
        self.size -= size
        if was_over and self.size <= self._limit:
            waiting, self._waiting = self._waiting, {}
            for holder in waiting:
                holder.total_fell()

    def is_over(self, holder: UnreadHolder, size: int) -> bool:
        """Return whether a connection that holds so much must wait; if so, `total_fell` follows."""
        over = self.size > self._limit and size > self._limit // max(len(self._holders), 1)
        if over:
            self._waiting[holder] = None
        return over
