"""What every model does: answer a conversation, piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from accord import AccordError, Cost, TokenUsage
from accord_coder.loop.messages import Message, ToolUse

__all__ = (
    "ContextOverflow",
    "Finished",
    "KeyRejected",
    "Model",
    "ModelError",
    "Notice",
    "Piece",
    "Request",
    "Text",
    "Thought",
    "ToolSpec",
)


class ModelError(AccordError):
    """A model did not answer; the message is for the user and holds no secret.

    Raised once the model has tried again as often as it makes sense.
    """


class ContextOverflow(ModelError):
    """The conversation is longer than the model can take."""


class KeyRejected(ModelError):
    """The provider does not take the key."""


class ToolSpec(Struct, frozen=True):
    """A tool, as models are told of it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True, kw_only=True):
    """What a model is to answer. `effort` is how long to think, where the model can choose."""

    instructions: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: str | None = None


class Text(Struct, frozen=True):
    """More of the answer."""

    text: str


class Thought(Struct, frozen=True):
    """More of the model's thinking."""

    text: str


class Notice(Struct, frozen=True):
    """Something for the user that is no part of the answer: that it takes longer, say."""

    text: str


class Finished(Struct, frozen=True, kw_only=True):
    """The last piece: why it ended, what it took, and the model's own form of the answer.

    `context` is how many tokens of the context window are in use now.
    """

    reason: Literal["end", "tools", "max_tokens", "refusal"]
    tokens: TokenUsage | None = None
    context: int | None = None
    cost: Cost | None = None
    native: Any = None


Piece: TypeAlias = Text | Thought | Notice | ToolUse | Finished


class Model(ABC):
    """Answers conversations."""

    is_language_model: ClassVar[bool] = True
    name: str  # provider:name, local:name, or "demo"
    context_size: int  # tokens
    accepts: ClassVar[frozenset[str]] | frozenset[str] = frozenset()  # image, audio
    efforts: tuple[str, ...] = ()  # how long it may be told to think
    can_summarise: bool = True  # can tell in short what was said

    @abstractmethod
    def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Yield the answer as it comes, `Finished` last; raise `ModelError`."""

    async def aclose(self) -> None:
        """Free what it holds."""
        return
