"""The lanes of one direction of a stage: messages of a session are handled one after another.

A lane exists while a handler of its session is being awaited, or messages wait for it. Without
lanes, messages are handled immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

_ITEM_BYTES = 300  # approximate memory of a waiting message in addition to its text

Release: TypeAlias = Callable[[], None]
# Handles a message; returns True if later messages wait until `release` is called.
Run: TypeAlias = Callable[[Release], bool]


class _Item:
    """A message that waits; also for the lanes in which it has a mark."""

    __slots__ = ("gates", "marks", "run", "size")

    def __init__(self, run: Run, size: int, *, gates: bool) -> None:
        self.run = run
        self.size = size
        self.gates = gates
        self.marks = 0


class _Lane:
    __slots__ = ("is_held", "key", "waiting")

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.is_held = False
        self.waiting: deque[_Item | _Mark] = deque()


class _Mark:
    """Where a message without a session came, in the lane of a session."""

    __slots__ = ("item",)

    def __init__(self, item: _Item) -> None:
        self.item = item


class PassingLanes:
    """`full(True)` is called when more than `limit_bytes` wait, `full(False)` later on."""

    def __init__(self, full: Callable[[bool], None], limit_bytes: int = 1024 * 1024) -> None:
        self._by_key: dict[str | None, _Lane] = {}
        self._gated: deque[tuple[str | None, int, Run, bool]] | None = None
        self._full = full
        self.limit_bytes: int = limit_bytes
        self._is_full = False
        self._waiting_bytes = 0

    @property
    def are_free(self) -> bool:
        """Whether no message waits and no lane is held."""
        return not self._by_key and self._gated is None

    def submit(self, key: str | None, size: int, run: Run, *, gates: bool = False) -> None:
        """Handle a message of a session, now or after the earlier messages of the session.

        A message without a session (`key` None) also waits for earlier messages of all sessions.
        With `gates`, all later messages wait for this one: it may open the session of any.
        """
        if self._gated is not None:
            self._gated.append((key, size, run, gates))
            self._count(size + _ITEM_BYTES)
            return
        if gates:
            self._gated = deque()
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = _Lane(key)
        item = _Item(run, size, gates=gates)
        lane.waiting.append(item)
        self._count(size + _ITEM_BYTES)
        if key is None:
            for other in self._by_key.values():
                if other is not lane:
                    other.waiting.append(_Mark(item))
                    item.marks += 1
        if len(lane.waiting) == 1:
            self._advance(lane)

    def _advance(self, lane: _Lane) -> None:
        """Handle the messages of a lane until one holds it."""
        while lane.waiting and not lane.is_held:
            head = lane.waiting[0]
            if isinstance(head, _Mark):
                lane.waiting.popleft()
                head.item.marks -= 1
                if not head.item.marks:
                    self._advance(self._by_key[None])
                continue
            if head.marks:
                return
            lane.waiting.popleft()
            self._count(-head.size - _ITEM_BYTES)
            lane.is_held = True  # also while it runs
            release = self._release_of(lane, head)
            if not head.run(release):
                release()
        if not lane.waiting and not lane.is_held and self._by_key.get(lane.key) is lane:
            del self._by_key[lane.key]

    def _release_of(self, lane: _Lane, item: _Item) -> Release:
        is_released = False

        def release() -> None:
            nonlocal is_released
            if is_released:
                return
            is_released = True
            lane.is_held = False
            self._advance(lane)
            if item.gates:
                self._open_gate()

        return release

    def _open_gate(self) -> None:
        gated, self._gated = self._gated, None
        for key, size, run, gates in gated or ():
            self._count(-size - _ITEM_BYTES)
            self.submit(key, size, run, gates=gates)

    def _count(self, size: int) -> None:
        self._waiting_bytes += size
        if self._is_full:
            if self._waiting_bytes <= self.limit_bytes // 2:
                self._is_full = False
                self._full(False)
        elif self._waiting_bytes > self.limit_bytes:
            self._is_full = True
            self._full(True)
