"""The bounds of a connection."""

from __future__ import annotations

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
