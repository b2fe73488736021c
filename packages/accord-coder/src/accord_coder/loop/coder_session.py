"""The state of one session of the coder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from accord import Cost, Session
from accord_coder.messages import Message
from accord_coder.permissions.context import ToolContext
from accord_coder.permissions.project_rules import ProjectRules
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord.mcp import McpConnections
    from accord_coder.models.base import Model
    from accord_coder.tools.base import Tool


class CoderHooks(Protocol):
    """What a session needs from its agent."""

    def model_name(self, state: CoderSession, /) -> str:
        """Return the name of the session's model."""
        ...

    async def session_model(self, state: CoderSession, /) -> Model:
        """Return the session's model, ready to answer; raise `AuthRequired` if it has no key."""
        ...

    async def set_option(self, session: Session, option_id: str, value: str | bool, /) -> None:
        """Apply an option that the user selected."""
        ...


class CoderSession(ToolContext):
    """The context of the tools, the conversation as the model knows it, the model, and the tools.

    `history_loaded` is set when `messages` contains what was stored before. `effort` is how long
    the model thinks, `context_used` the tokens in its context, `cost` that of the session so far.
    """

    def __init__(
        self, session: Session, settings: Settings, rules: ProjectRules, hooks: CoderHooks
    ) -> None:
        super().__init__(session, settings, rules)
        self.hooks = hooks
        self.messages: list[Message] = []
        self.history_loaded = False
        self.model: Model | None = None
        self.effort: str | None = None
        self.context_used = 0
        self.cost: Cost | None = None
        self.tools: dict[str, Tool[Any]] = {}
        self.mcp: McpConnections | None = None  # from the first prompt on, if there are servers
        self.mcp_reported: set[str] = set()  # the servers that the user knows to have failed
        self.lacks_mcp = False  # the package is not installed, and the user knows
        self._open_models: list[Model] = []

    def set_model(self, model: Model) -> None:
        """Use this model from the next turn on."""
        self.model = model
        self._open_models.append(model)

    def drop_model(self) -> None:
        """Open the model again before it is used: its key may have changed."""
        self.model = None

    async def aclose(self) -> None:
        """Close the models. No turn may be running."""
        while self._open_models:
            await self._open_models.pop().aclose()
