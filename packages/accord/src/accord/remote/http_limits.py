"""The bounds on what clients of the HTTP server may make it hold."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Sizes are in bytes, times in seconds."""

    body_bytes: int = 16 * 1024 * 1024  # of a POST
    body_s: float = 60.0  # for a body; more while it arrives with at least 1 KiB/s
    initialize_s: float = 120.0  # for the agent's response to `initialize`
    unread_bytes: int = 64 * 1024 * 1024  # of a connection; then the agent and requests wait
    total_unread_bytes: int = 512 * 1024 * 1024  # of all; then the same beyond an equal share
    stall_s: float = 60.0  # without any reading; then the connection is closed
    unread_sessions: int = 1024  # with output and without a reader
    provisional_streams: int = 64  # of sessions that the agent has not mentioned
    provisional_s: float = 60.0  # such a stream lives without a request for its session
    waiting_posts: int = 1024  # of a connection, while the agent does not read
    requests: int = 10_000  # of a connection, without a response
    keepalive_s: float = 15.0  # between comments on an idle stream
    idle_s: float = 300.0  # without a stream, POST or running request; 0 is unlimited
    # A second GET of a stream: whether it replaces a reader that has stopped reading.
    second_reader: Literal["takeover", "conflict"] = "takeover"
