"""A turn: what the user said, and all that the agent does about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accord.agent.background import current_turn
from accord.agent.session_actions import SessionActions

if TYPE_CHECKING:
    from accord.agent.session import Session
    from accord.types.content import (
        AudioContent,
        ContentBlock,
        EmbeddedResource,
        ImageContent,
        ResourceLink,
    )
    from accord.types.session import TokenUsage

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("Turn",)


class Turn(SessionActions):
    """One prompt being worked on; `content` is what the user said.

    `tokens` are what it took: set them, and they are told with its end (unstable). `meta` is the
    `_meta` that came with the prompt, `end_meta` what is to go with the turn's end.
    """

    def __init__(
        self,
        session: Session,
        content: tuple[ContentBlock, ...],
        stop: Callable[[], None],
        meta: dict[str, Any] | None = None,
    ) -> None:
        self.session = session
        self.content = content
        self.meta = meta
        self.end_meta: dict[str, Any] | None = None
        self.message_id = ""
        self.cancelled = False
        self.token_usage: TokenUsage | None = None
        self.is_over = False  # what it began and has not ended goes on in the background
        self._stop = stop

    def __repr__(self) -> str:
        from accord.text.excerpt import excerpt

        state = "over" if self.is_over else "cancelled" if self.cancelled else "running"
        session = excerpt(self.session.id, 60)
        return f"<Turn of session {session!r}, {state}: {excerpt(self.text, 60)!r}>"

    # What the user said.

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources stand in it as Markdown."""
        from accord.types.content import text_of

        return text_of(self.content)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """The images of the prompt."""
        from accord.types.content import ImageContent

        return tuple(part for part in self.content if isinstance(part, ImageContent))

    @property
    def audio(self) -> tuple[AudioContent, ...]:
        """The sounds of the prompt."""
        from accord.types.content import AudioContent

        return tuple(part for part in self.content if isinstance(part, AudioContent))

    @property
    def resources(self) -> tuple[EmbeddedResource, ...]:
        """The resources that came with their content."""
        from accord.types.content import EmbeddedResource

        return tuple(part for part in self.content if isinstance(part, EmbeddedResource))

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The resources that the agent can read by itself."""
        from accord.types.content import ResourceLink

        return tuple(part for part in self.content if isinstance(part, ResourceLink))

    @property
    def turn_here(self) -> Turn | None:
        """See `SessionActions`."""
        return current_turn.get(self)

    # How it goes.

    def cancel(self) -> None:
        """Stop it: however its handler ends now, it ends as cancelled."""
        if not self.cancelled:
            self.cancelled = True
            self._stop()
