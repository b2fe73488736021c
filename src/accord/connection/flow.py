"""Decides whether a connection reads: it lets the peer wait only while nothing is awaited of it.

A connection has one stream, so a peer that waits sends no responses and nothing of any session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from accord.connection.backlog import Backlogs
from accord.connection.lanes import LaneHolder
from accord.connection.limits import Limits
from accord.transports.base import Transport

__all__ = ("Flow",)

_MAX_SESSIONS = 4096  # that are remembered in order to know that there are others


class Flow:
    """Pauses and resumes reading; `overrun(reason)` is called when the connection must end."""

    def __init__(
        self, transport: Transport, limits: Limits, overrun: Callable[[str], None]
    ) -> None:
        self.backlogs = Backlogs(limits, self.apply_backpressure)
        # Whether a session other than these keeps up; by default: whether there is another one.
        self.reads_others: Callable[[set[Any]], bool] = self._knows_others
        self._transport = transport
        self._limits = limits
        self._overrun = overrun
        self._sessions: set[Any] = set()  # of calls, requests and lanes
        self._calls = 0  # of ours that wait for a response, or for room to be sent
        self._calls_of: dict[Any, int] = {}  # those not made by the handler of their own session
        self._senders = 0  # of notifications that wait for room
        self._unread_bytes = 0  # of responses that the peer has not read
        self._paused = False

    def begin_call(self, session: Any, caller: LaneHolder | None) -> None:
        """A caller waits for the peer: what it sends must be read."""
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
        """The response has come, or the call was given up."""
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
        """A caller waits until the peer reads, which may itself wait until it is read."""
        self._senders += 1
        if self._paused:
            self.apply_backpressure()
        try:
            yield
        finally:
            self._senders -= 1

    def note_session(self, session: Any) -> None:
        """Remember that there is this session."""
        if len(self._sessions) < _MAX_SESSIONS:
            self._sessions.add(session)

    def add_unread(self, size: int) -> None:
        """Count a response that the peer does not read."""
        self._unread_bytes += size

    def all_read(self) -> None:
        """The peer has read the responses."""
        if self._unread_bytes:
            self._unread_bytes = 0
            self.apply_backpressure()

    def after_reading(self) -> None:
        """Pause if too much waits by now."""
        if self.backlogs.full or self._unread_bytes:
            self.apply_backpressure()

    def apply_backpressure(self) -> None:
        """Let the peer wait while too much of it waits here, and nothing else is awaited of it."""
        limits = self._limits
        if self._unread_bytes > limits.all_waiting_bytes:
            self._overrun("The peer sends requests and does not read the responses")
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
        """Whether something of the peer is awaited by others than consumers that are behind."""
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
