"""The bounds of a connection, and of the log lines that a peer can cause."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a connection. Sizes are in bytes, times in seconds."""

    # Received messages of one session that wait for its handlers. Above these, reading pauses,
    # unless other messages would be delayed.
    backlog_messages: int = 1024
    backlog_bytes: int = 8 * 1024 * 1024
    # Above these, the consumer of the session fails with `BacklogExceeded`.
    max_backlog_messages: int = 65_536
    max_backlog_bytes: int = 64 * 1024 * 1024
    # Of all sessions: above it, the largest backlog fails. Also of the requests in progress:
    # above it, further requests are answered with an error.
    total_backlog_bytes: int = 256 * 1024 * 1024
    held_messages: int = 16_384  # messages received while `initialize` is in progress
    unread_responses_bytes: int = 16 * 1024 * 1024  # above it, requests are no longer read
    sessions: int = 10_000  # open at the same time on an agent's connection
    requests: int = 16_384  # of the peer, in progress at the same time
    eof_grace_s: float = 0.5  # for request handlers to finish after the peer disconnects
    drain_s: float = 30.0  # for notification handlers to finish after the peer disconnects
    close_timeout_s: float = 5.0


_INTERVAL_S = 60.0  # between two lines of one kind
_MAX_KINDS = 256


class FloodLog:
    """Logs the first line of each kind, and counts the others for the next line of the kind.

    A kind is a log message without its arguments, together with the argument `kind`.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._kinds: dict[tuple[str, object], _Kind] = {}

    def log(
        self,
        level: int,
        message: str,
        *args: object,
        kind: object = None,
        exc_info: BaseException | None = None,
    ) -> None:
        """Log a line, unless one of its kind was logged in the last minute."""
        if not self._logger.isEnabledFor(level):
            return
        key: tuple[str, object] = (message, kind)
        if key not in self._kinds and len(self._kinds) >= _MAX_KINDS:
            key = ("", None)  # all further kinds count as one
        now = self._clock()
        found = self._kinds.get(key)
        if found is None:
            self._kinds[key] = _Kind(now)
        elif now - found.logged_at < _INTERVAL_S:
            found.suppressed += 1
            return
        else:
            if found.suppressed:
                message, args = f"{message} (and %d times before)", (*args, found.suppressed)
            self._kinds[key] = _Kind(now)
        self._logger.log(level, message, *args, exc_info=exc_info, stacklevel=2)

    def exception(self, message: str, *args: object, exc: BaseException, about: str = "") -> None:
        """Log an exception with its traceback. Each type of exception is a kind."""
        self.log(logging.ERROR, message, *args, kind=(type(exc), about), exc_info=exc)


class _Kind:
    """When a kind was last logged, and how many lines were suppressed since."""

    __slots__ = ("logged_at", "suppressed")

    def __init__(self, logged_at: float) -> None:
        self.logged_at = logged_at
        self.suppressed = 0
