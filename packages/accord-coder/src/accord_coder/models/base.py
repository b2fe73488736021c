"""The interface of models: they answer a conversation in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from accord import AccordError, Cost, TokenUsage
from accord_coder.messages import Message, ToolUse


class ModelError(AccordError):
    """A model did not answer; the text is for the user and contains no secret.

    Raised after the retries.
    """


class ContextOverflow(ModelError):
    """The conversation is longer than the model's context."""


class KeyRejected(ModelError):
    """The provider rejected the API key."""


class ToolSpec(Struct, frozen=True):
    """The description of a tool for models; `parameters` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True, kw_only=True):
    """A request for an answer. `effort` is how long to think, if the model supports that."""

    instructions: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: str | None = None


class Text(Struct, frozen=True):
    """A piece of the answer."""

    text: str


class Thought(Struct, frozen=True):
    """A piece of the model's thinking."""

    text: str


class Notice(Struct, frozen=True):
    """A notice for the user outside the answer, for example about a delay."""

    text: str


class Finished(Struct, frozen=True, kw_only=True):
    """The last piece: the stop reason, the usage, and the provider's own form of the answer.

    `context` is the number of tokens in the context.
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
    efforts: tuple[str, ...] = ()  # values of `Request.effort`
    can_summarise: bool = True  # whether it can summarise a conversation

    @abstractmethod
    def answer(self, request: Request) -> AsyncIterator[Piece]:
        """Yield the answer as it comes, `Finished` last; raise `ModelError`."""

    async def aclose(self) -> None:
        """Close its connections."""
        return
