"""The interface of models: a conversation of messages goes in, the pieces of an answer come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from accord import AccordError, ContentBlock, Cost, TokenUsage


class Prompt(Struct, frozen=True):
    """The prompt of the user."""

    content: tuple[ContentBlock, ...]


class ToolUse(Struct, frozen=True):
    """A request of the model to use a tool; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class Answer(Struct, frozen=True, kw_only=True):
    """An answer of the model; `native` is the provider's own form of it."""

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    native: Any = None


class ToolResult(Struct, frozen=True):
    """The result of one tool use, for the model."""

    use_id: str
    name: str
    content: tuple[ContentBlock, ...]
    failed: bool = False

    @property
    def text(self) -> str:
        """The text of the result."""
        return "\n".join(part for part in self.content if isinstance(part, str))


class Results(Struct, frozen=True):
    """The results of all tool uses of the previous answer."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = Prompt | Answer | Results


def repair(messages: list[Message]) -> list[Message]:
    """Return the messages with a result for every tool use, which providers require."""
    found: list[Message] = []
    for at, message in enumerate(messages):
        found.append(message)
        if not isinstance(message, Answer) or not message.uses:
            continue
        following = messages[at + 1] if at + 1 < len(messages) else None
        if not isinstance(following, Results):
            lost = tuple(
                ToolResult(use.id, use.name, ("It was cancelled.",), failed=True)
                for use in message.uses
            )
            found.append(Results(lost))
    return found


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
