"""Prompts: the user's messages to the agent (v2)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from accord.v2.content import ContentBlock
from accord.v2.ids import MessageId, SessionId
from accord.wire.base import Lenient, Wire
from accord.wire.method import Method

__all__ = (
    "PromptAudioCapabilities",
    "PromptCapabilities",
    "PromptEmbeddedContextCapabilities",
    "PromptImageCapabilities",
    "PromptRequest",
    "PromptResponse",
)


class PromptRequest(Wire):
    """A message of the user."""

    session_id: SessionId
    prompt: Annotated[list[ContentBlock], Meta(min_length=1)]


class PromptResponse(Wire):
    """The prompt is inserted in the conversation; state updates report the end of its work."""

    message_id: MessageId


class PromptImageCapabilities(Wire):
    """Prompts may contain images."""


class PromptAudioCapabilities(Wire):
    """Prompts may contain audio."""


class PromptEmbeddedContextCapabilities(Wire):
    """Prompts may contain resources with their content."""


class PromptCapabilities(Wire):
    """The kinds of content that a prompt may have in addition to text and links."""

    image: Lenient[PromptImageCapabilities | None] = None
    audio: Lenient[PromptAudioCapabilities | None] = None
    embedded_context: Lenient[PromptEmbeddedContextCapabilities | None] = None


METHODS: tuple[Method, ...] = (
    Method(
        name="session/prompt",
        call="prompt",
        params=PromptRequest,
        result=PromptResponse,
        to="agent",
        gate="agent.session",
    ),
)
