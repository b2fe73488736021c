"""What goes wrong with persistent sessions, each with its exit status."""

from __future__ import annotations

from accord.errors import AccordError

# The exit statuses of `accord session` (R-NAMED-01).
FAILED, USAGE, TIME_LIMIT, NO_SESSION, PERMISSION_DENIED, INTERRUPTED = 1, 2, 3, 4, 5, 130


class SessionsError(AccordError):
    """A persistent session cannot be used."""

    status = FAILED


class NoSession(SessionsError):
    """There is no session of this name here."""

    status = NO_SESSION


class StoreError(SessionsError):
    """The folder of the sessions cannot be used."""


class JournalError(StoreError):
    """The journal of a session cannot be written or read."""


class OwnerError(SessionsError):
    """The process that holds the agent cannot be started or reached, or has ended."""


class OwnerStarts(OwnerError):
    """The agent of the session is still starting."""


class LoginRequired(OwnerError):
    """The agent refuses to work without a login."""
