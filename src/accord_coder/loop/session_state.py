"""What one session of the coder works with, from its opening to its close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord import Cost, Session
from accord_coder.files import TrackedFiles
from accord_coder.loop.messages import Message
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord_coder.mcp_client import McpServers
    from accord_coder.models.base import Model
    from accord_coder.permissions.project_rules import ProjectRules
    from accord_coder.tools.base import Tool

__all__ = ("CoderSession",)


class CoderSession:
    """The conversation as the model knows it, the model, the tools, and what files looked like."""

    def __init__(self, session: Session, settings: Settings, rules: ProjectRules) -> None:
        self.session = session
        self.settings = settings
        self.rules = rules
        self.messages: list[Message] = []
        self.history_loaded = False  # whether `messages` holds what was said before
        self.model: Model | None = None
        self.effort: str | None = None  # how long the model is to think
        self.context_used = 0  # tokens of the model's context that are in use
        self.cost: Cost | None = None  # of the session so far
        self._open_models: list[Model] = []
        self.tools: dict[str, Tool[Any]] = {}
        self.mcp: McpServers | None = None  # from the first prompt on, where the client gives any
        self.allowed_paths: set[str] = (
            set()
        )  # real paths outside of the roots that the user allowed
        self.files = TrackedFiles(session, self.allowed_paths)

    def set_model(self, model: Model) -> None:
        """Have this model answer from the next turn on."""
        self.model = model
        self._open_models.append(model)

    def drop_model(self) -> None:
        """Open the model again before it is used: its key may have changed."""
        self.model = None

    async def aclose(self) -> None:
        """Free what the session holds; its turns are over."""
        if self.mcp is not None:
            await self.mcp.aclose()
        while self._open_models:
            await self._open_models.pop().aclose()

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.session.mode or "default"
