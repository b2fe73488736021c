"""The conversation of a session that was opened again, from what was stored of it.

The model is told what it was told then: what the user said, its own text, and the results of its
tools to the letter. Its own form of its answers is not stored; several uses of tools in one answer
come back as one answer each, which says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from accord import ContentBlock, ImageContent
from accord.agent.updates import CompactionUpdate, MessageUpdate, ToolCallUpdate, Update
from accord_coder.loop.messages import Answer, Message, Prompt, Results, ToolResult, ToolUse

__all__ = ("messages_from",)

ExpandPrompt = Callable[[tuple[ContentBlock, ...]], tuple[ContentBlock, ...] | None]


def messages_from(
    reports: Iterable[Update], reread: ExpandPrompt, *, until: str = ""
) -> list[Message]:
    """Return what the model is to know, up to the prompt whose message id is `until`.

    `reread` returns what the model is told for what the user typed; None for what was never for
    the model, such as `/help`.
    """
    building = _HistoryBuilder(reread)
    for report in reports:
        match report:
            case MessageUpdate("user", message_id, content):
                if message_id == until:
                    break
                building.prompt(content)
            case MessageUpdate("agent", _, content):
                building.answer("".join(part for part in content if isinstance(part, str)))
            case ToolCallUpdate():
                building.tool(report)
            case CompactionUpdate(status="completed", summary=tuple(summary)):
                building.compaction("".join(part for part in summary if isinstance(part, str)))
            case _:
                pass
    return building.messages()


class _HistoryBuilder:
    def __init__(self, reread: ExpandPrompt) -> None:
        self._reread = reread
        self._messages: list[Message] = []
        self._skips = False  # what is being read was not for the model

    def prompt(self, content: tuple[ContentBlock, ...]) -> None:
        told = self._reread(content)
        self._skips = told is None
        if told is not None:
            self._messages.append(Prompt(told))

    def answer(self, text: str) -> None:
        if not self._skips and text:
            self._messages.append(Answer(text=text))

    def tool(self, report: ToolCallUpdate) -> None:
        if self._skips or report.name is UNSET:
            return  # not the model's
        use = ToolUse(report.id, report.name, _arguments(report.raw_input))
        last = self._messages[-1] if self._messages else None
        if isinstance(last, Answer) and not last.uses:
            self._messages[-1] = Answer(text=last.text, uses=(use,))
        else:
            self._messages.append(Answer(uses=(use,)))
        text, failed = _result(report)
        content: list[ContentBlock] = [text]
        if not failed and report.content is not UNSET:
            content += [part for part in report.content if isinstance(part, ImageContent)]
        self._messages.append(Results((ToolResult(use.id, use.name, tuple(content), failed),)))

    def compaction(self, summary: str) -> None:
        from accord_coder.models.summary import compact_messages

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


def _result(report: ToolCallUpdate) -> tuple[str, bool]:
    """Return what the model was told, and whether as a failure."""
    match report.raw_output:
        case {"output": str() as text}:
            return text, False
        case {"error": str() as text}:
            return text, True
        case _:
            return "It was interrupted before it was done; look whether it had an effect.", True
