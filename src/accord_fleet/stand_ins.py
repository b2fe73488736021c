<<<<<<< HEAD
"""No graders, until there are some."""

from __future__ import annotations

from accord_fleet.parts import AskAgent
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.types.result import Verdict
from accord_fleet.types.task import Grader

__all__ = ("NoGraders",)
=======
"""The simplest parts: an empty folder for each attempt, and no graders."""

from __future__ import annotations

import shutil
from pathlib import Path

from accord_fleet.errors import AttemptFailed
from accord_fleet.parts import AskAgent, WorkspaceDiff
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.types.result import Verdict
from accord_fleet.types.task import EmptyFolder, Grader, Task

__all__ = ("EmptyWorkspace", "EmptyWorkspaces", "NoGraders")


class EmptyWorkspaces:
    """Makes empty folders, with the files of the task."""

    async def prepare(self, task: Task, folder: Path) -> EmptyWorkspace:
        """Make the folder."""
        if not isinstance(task.workspace, EmptyFolder):
            raise AttemptFailed("workspace", f"Unknown workspace {task.workspace!r}")
        _fill(folder, task.files)
        return EmptyWorkspace(folder)


class EmptyWorkspace:
    """A folder that was empty."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path

    async def diff(self) -> WorkspaceDiff:
        """Return no changes."""
        return WorkspaceDiff()

    async def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def _fill(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
>>>>>>> 5bdc0ad6 (List the imports of the grader's process)


class NoGraders:
    """Grades nothing."""

    async def grade(self, grader: Grader, attempt: GradedAttempt, ask: AskAgent) -> Verdict:
        """Return an error."""
        return Verdict(error=f"Unknown grader {grader!r}")
