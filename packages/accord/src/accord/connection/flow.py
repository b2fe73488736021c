"""Back-pressure: decides when a connection pauses reading.

All sessions share one stream. While reading is paused, the peer can send neither responses nor
messages of other sessions. So reading pauses only while nothing else is expected from the peer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from accord.connection.backlog import Backlogs
from accord.connection.lanes import LaneHolder
from accord.connection.limits import Limits
from accord.transports.base import Transport

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
