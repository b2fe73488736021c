"""What a model is told of a session: messages and the results of tools, in order."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from accord import ContentBlock

__all__ = ("Answer", "Message", "Prompt", "Results", "ToolResult", "ToolUse", "repair")


class Prompt(Struct, frozen=True):
    """What the user said."""

    content: tuple[ContentBlock, ...]


class ToolUse(Struct, frozen=True):
    """The model wants a tool used; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class Answer(Struct, frozen=True, kw_only=True):
    """What the model answered; `native` is its own form of it, known to the model alone."""

    text: str = ""
    uses: tuple[ToolUse, ...] = ()
    native: Any = None


class ToolResult(Struct, frozen=True):
    """What came of using a tool, as the model is told."""

    use_id: str
    name: str
    content: tuple[ContentBlock, ...]
    failed: bool = False

    @property
    def text(self) -> str:
        """The text of it."""
        return "\n".join(part for part in self.content if isinstance(part, str))


class Results(Struct, frozen=True):
    """What came of all the tools of the answer before."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = Prompt | Answer | Results


def repair(messages: list[Message]) -> list[Message]:
    """Return the messages with a result for every use of a tool: models insist on that."""
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
