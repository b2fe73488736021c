"""The error of a workspace that cannot be prepared or compared."""

from __future__ import annotations

from accord_fleet.errors import AttemptFailed


class WorkspaceError(AttemptFailed):
    """A workspace cannot be prepared; the message names what was expected and what came."""

    def __init__(self, message: str) -> None:
        super().__init__("workspace", message)
