"""Why a dataset cannot be opened or written."""

from __future__ import annotations

from accord_fleet.errors import FleetError


class DatasetError(FleetError):
    """A dataset cannot be used; the message has its address and the reason."""


class DatasetInUse(DatasetError):
    """Another run writes this dataset; the message names its process, machine and start.

    `until` is when its lease ends, in seconds since 1970; None without a lease.
    """

    def __init__(self, message: str, until: float | None = None) -> None:
        super().__init__(message)
        self.until: float | None = until


class TasksChanged(DatasetError):
    """The tasks are not those with which the run began."""


class DatasetWriteFailed(DatasetError):
    """A result or a recording could not be stored, for example because the disk is full.

    Everything that was stored before is kept. `os_error` has the error of the system.
    """

    def __init__(self, message: str, os_error: OSError) -> None:
        super().__init__(message)
        self.os_error: OSError = os_error
