"""What tools and permissions know of the session that they work in."""

from __future__ import annotations

from accord import Session
from accord_coder.files import TrackedFiles
from accord_coder.permissions.project_rules import ProjectRules
from accord_coder.settings import Settings


class ToolContext:
    """A session, its settings, its permission rules and its files.

    `allowed_paths` are the real paths outside of the session's directories that the user allowed.
    """

    def __init__(self, session: Session, settings: Settings, rules: ProjectRules) -> None:
        self.session = session
        self.settings = settings
        self.rules = rules
        self.allowed_paths: set[str] = set()
        self.files = TrackedFiles(session, self.allowed_paths)

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.session.mode or "default"
