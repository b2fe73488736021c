"""Why an attempt does not finish, and why a run does not start."""

from __future__ import annotations

from accord.errors import AccordError
from accord_fleet.types.limits import LimitName
from accord_fleet.types.result import FailedPart


class FleetError(AccordError):
    """A run cannot start or continue; the message has everything that is wrong."""


class AttemptFailed(AccordError):
    """A part of an attempt failed: the result has this failure, and other attempts continue."""

    def __init__(self, where: FailedPart, message: str) -> None:
        super().__init__(message)
        self.where: FailedPart = where


class LimitReached(AccordError):
    """An attempt reached a limit: the result has this failure, and other attempts continue."""

    def __init__(self, limit: LimitName, message: str) -> None:
        super().__init__(message)
        self.limit: LimitName = limit
