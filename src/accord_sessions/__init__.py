"""Persistent sessions: a background process holds the agent, and many clients use its session."""

from __future__ import annotations

from accord_sessions.errors import NoSession, OwnerError, SessionsError
from accord_sessions.named import QueuedPrompt, SessionStatus, SharedSession, open_session

__all__ = (
    "NoSession",
    "OwnerError",
    "QueuedPrompt",
    "SessionStatus",
    "SessionsError",
    "SharedSession",
    "open_session",
)
