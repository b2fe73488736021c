"""What a grader receives."""

from __future__ import annotations

from pathlib import Path

import msgspec

from accord_fleet.types.result import Result
from accord_fleet.types.task import Task


class GradedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt after its last turn."""

    task: Task
    workspace: Path
    """The folder that the agent has worked in; it exists until the grader returns."""
    result: Result
    """The result so far, without a verdict."""
    trace: Path | None = None
    """The recording of the messages, complete up to the last turn."""
