"""Prompts: what the user says to the agent (v2)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from accord.v2.content import ContentBlock
from accord.v2.ids import MessageId, SessionId
from accord.wire.base import Wire

__all__ = ("PromptRequest", "PromptResponse")


class PromptRequest(Wire):
    """A message of the user."""

    session_id: SessionId
    prompt: Annotated[list[ContentBlock], Meta(min_length=1)]


class PromptResponse(Wire):
    """The prompt has its place in the conversation; state updates tell when its work ends."""

    message_id: MessageId
