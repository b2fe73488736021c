"""A turn: the prompt of the user, and what the agent does about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from accord.agent.session import ConnectedClient, Session, WorkActions
from accord.agent.turn_state import TurnState, current_turn
from accord.agent.updates import MessageUpdate, Update
from accord.text.excerpt import excerpt
from accord.types.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, text_of

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore
    from accord.agent.toolbox import Toolbox
    from accord.types.content import ContentBlock
    from accord.types.session import TokenUsage


PartT = TypeVar("PartT")


class Turn(WorkActions):
    """One prompt that the agent works on, with methods for what the agent shows and asks."""

    def __init__(
        self,
        session: Session,
        core: SessionCore,
        state: TurnState,
        toolbox: type[Toolbox],
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.session = session
        """The session of the turn."""
        self.content = content
        """The prompt as the user sent it."""
        self.meta = meta
        """The `_meta` of the prompt."""
        self.end_meta: dict[str, Any] | None = None
        """The `_meta` to send with the turn's end."""
        self.token_usage: TokenUsage | None = None
        """The tokens that the turn used, to send with its end (unstable)."""
        self._core = core
        self._toolbox = toolbox
        self._state = state

    def __repr__(self) -> str:
        over, cancelled = self._state.is_over, self._state.cancelled
        state = "over" if over else "cancelled" if cancelled else "running"
        session = excerpt(self.session.id, 60)
        return f"<Turn of session {session!r}, {state}: {excerpt(self.text, 60)!r}>"

    def _turn_here(self) -> TurnState | None:
        return current_turn.get(self._state)

    # The prompt.

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources are written as Markdown."""
        return text_of(self.content)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """The images of the prompt."""
        return self._parts(ImageContent)

    @property
    def audio(self) -> tuple[AudioContent, ...]:
        """The audio of the prompt."""
        return self._parts(AudioContent)

    @property
    def resources(self) -> tuple[EmbeddedResource, ...]:
        """The resources of the prompt that contain their content."""
        return self._parts(EmbeddedResource)

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resources of the prompt that the agent has to read itself."""
        return self._parts(ResourceLink)

    def _parts(self, kind: type[PartT]) -> tuple[PartT, ...]:
        return tuple(part for part in self.content if isinstance(part, kind))

    # Where it runs.

    @property
    def client(self) -> ConnectedClient:
        """The client that sent the prompt: its version, capabilities and extensions."""
        return self.session.client

    async def history(self) -> list[Update]:
        """Return what was said and done before this prompt; nothing without a store."""
        updates = await self._core.history()
        for at, update in enumerate(updates):
            match update:
                case MessageUpdate("user", self._state.message_id):
                    return updates[:at]
                case _:
                    pass
        return updates

    # Its end.

    @property
    def cancelled(self) -> bool:
        """Whether the turn is cancelled."""
        return self._state.cancelled

    def cancel(self) -> None:
        """Cancel the turn: its stop reason is `cancelled`, however its handler ends."""
        self._state.cancel()
