"""No graders, until there are some."""

from __future__ import annotations

from accord_fleet.parts import AskAgent
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.types.result import Verdict
from accord_fleet.types.task import Grader

__all__ = ("NoGraders",)


class NoGraders:
    """Grades nothing."""

    async def grade(self, grader: Grader, attempt: GradedAttempt, ask: AskAgent) -> Verdict:
        """Return an error."""
        return Verdict(error=f"Unknown grader {grader!r}")
