"""The conversation of a session that was opened again, from its stored updates.

The model sees what it saw before: the prompts, its own text, and the exact results of its
tools. The provider's form of an answer is not stored. Several tool uses of one answer become
one answer each, which is equivalent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from accord import ContentBlock, ImageContent
from accord.agent import CompactionUpdate, MessageUpdate, ToolCallUpdate, Update
from accord_coder.messages import Answer, Message, Prompt, Results, ToolResult, ToolUse
from accord_coder.models.summary import compact_messages

ExpandPrompt = Callable[[tuple[ContentBlock, ...]], tuple[ContentBlock, ...] | None]


def messages_from(updates: Iterable[Update], expand: ExpandPrompt) -> list[Message]:
    """Return the messages of the model from the stored updates of a session.

    `expand` returns the content that the model received for a prompt; None if it received none,
    as for `/help`.
    """
    building = _HistoryBuilder(expand)
    for update in updates:
        match update:
            case MessageUpdate("user", _, content):
                building.prompt(content)
            case MessageUpdate("agent", _, content):
                building.answer("".join(part for part in content if isinstance(part, str)))
            case ToolCallUpdate():
                building.tool(update)
            case CompactionUpdate(status="completed", summary=tuple(summary)):
                building.compaction("".join(part for part in summary if isinstance(part, str)))
            case _:
                pass
    return building.messages()


class _HistoryBuilder:
    def __init__(self, expand: ExpandPrompt) -> None:
        self._expand = expand
        self._messages: list[Message] = []
        self._skipping = False  # the last prompt was not for the model

    def prompt(self, content: tuple[ContentBlock, ...]) -> None:
        expanded = self._expand(content)
        self._skipping = expanded is None
        if expanded is not None:
            self._messages.append(Prompt(expanded))

    def answer(self, text: str) -> None:
        if not self._skipping and text:
            self._messages.append(Answer(text=text))

    def tool(self, update: ToolCallUpdate) -> None:
        if self._skipping or update.name is UNSET:
            return  # not a tool use of the model
        use = ToolUse(update.id, update.name, _arguments(update.raw_input))
        last = self._messages[-1] if self._messages else None
        if isinstance(last, Answer) and not last.uses:
            self._messages[-1] = Answer(text=last.text, uses=(use,))
        else:
            self._messages.append(Answer(uses=(use,)))
        text, failed = _result(update)
        content: list[ContentBlock] = [text]
        if not failed and update.content is not UNSET:
            content += [part for part in update.content if isinstance(part, ImageContent)]
        self._messages.append(Results((ToolResult(use.id, use.name, tuple(content), failed),)))

    def compaction(self, summary: str) -> None:
        if summary:
            self._messages = compact_messages(self._messages, summary)

    def messages(self) -> list[Message]:
        return self._messages


def _arguments(raw_input: Any) -> str:
    match raw_input:
        case {"arguments": str() as text, **rest} if not rest:
            return text  # what the model wrote was not JSON
        case dict():
            return msgspec.json.encode(raw_input).decode()
        case _:
            return "{}"


def _result(update: ToolCallUpdate) -> tuple[str, bool]:
    """Return the result that the model received, and whether it was a failure."""
    match update.raw_output:
        case {"output": str() as text}:
            return text, False
        case {"error": str() as text}:
            return text, True
        case _:
            return "It was interrupted: check whether it had an effect.", True
