"""What one session of the coder works with, from its opening to its close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accord import Cost, Session
from accord_coder.files import WorkFiles
from accord_coder.loop.messages import Message
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord_coder.mcp_client import McpServers
    from accord_coder.models.base import Model
    from accord_coder.permissions.project_rules import Rulebook
    from accord_coder.tools.base import Tool

__all__ = ("Work",)


class Work:
    """The conversation as the model knows it, the model, the tools, and what files looked like."""

    def __init__(self, session: Session, settings: Settings, rules: Rulebook) -> None:
        self.session = session
        self.settings = settings
        self.rules = rules
        self.messages: list[Message] = []
        self.restored = False  # whether `messages` holds what was said before
        self.model: Model | None = None
        self.effort: str | None = None  # how long the model is to think
        self.context = 0  # tokens of the model's context that are in use
        self.cost: Cost | None = None  # of the session so far
        self._opened: list[Model] = []
        self.tools: dict[str, Tool[Any]] = {}
        self.mcp: McpServers | None = None  # from the first prompt on, where the client gives any
        self.granted: set[str] = set()  # real paths outside of the roots that the user allowed
        self.files = WorkFiles(session, self.granted)

    def take_model(self, model: Model) -> None:
        """Have this model answer from the next turn on."""
        self.model = model
        self._opened.append(model)

    def let_model_go(self) -> None:
        """Open the model again before it is used: its key may have changed."""
        self.model = None

    async def aclose(self) -> None:
        """Free what the session holds; its turns are over."""
        if self.mcp is not None:
            await self.mcp.aclose()
        while self._opened:
            await self._opened.pop().aclose()

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.session.mode or "default"
