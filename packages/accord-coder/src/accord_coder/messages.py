"""The conversation with a model: prompts, answers and tool results, in order."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from accord import ContentBlock


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
