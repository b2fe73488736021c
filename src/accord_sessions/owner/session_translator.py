"""Translates the updates of a session and its subagents, which are shown as tool calls.

Version 1 has subagents only for clients that announce them, and not all of those show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Raw

from accord.agent.updates import ToolCallUpdate, ToolContentUpdate, Update
from accord.client.events import ContentChunk, Event, MessageReplaced, Subagent, Text, ToolCall
from accord.types.content import ContentBlock
from accord.types.tool_calls import Diff, ToolStatus
from accord_sessions.owner.translate import Translator

__all__ = ("SessionTranslator",)

_Meta: TypeAlias = dict[str, Any] | None


class SessionTranslator:
    """Reads the updates of a session and its subagents in their order."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._main = Translator(version)
        self._calls: dict[str, str] = {}  # the tool call of each subagent, by session id
        self._working: dict[str, _SubagentText] = {}

    def updates(self, session_id: str | None, update: Raw) -> Iterator[tuple[Update, _Meta]]:
        """Yield the neutral updates of the session, and their `_meta`.

        `session_id` is that of the subagent whose update it is.
        """
        if session_id is None:
            for event in self._main.events(update):
                if isinstance(event, Subagent):
                    yield from ((shown, event.meta) for shown in self._subagent(event))
                else:
                    meta = getattr(event, "meta", None)
                    yield from ((neutral, meta) for neutral in self._main.neutral(event))
        elif (working := self._working.get(session_id)) is not None:
            for event in working.translator.events(update):
                yield from ((shown, None) for shown in self._of_subagent(working, event))

    def _subagent(self, subagent: Subagent) -> Iterator[Update]:
        """Yield the tool call of a subagent of the session."""
        is_new = subagent.id not in self._calls
        self._calls.setdefault(subagent.id, subagent.id)
        status = self._note_state(subagent)
        call = ToolCallUpdate(
            id=subagent.id,
            is_new=is_new,
            title=subagent.title or "Subagent",
            kind="think",
            status=status,
        )
        yield call
        if is_new and subagent.description:
            yield ToolContentUpdate(subagent.id, f"{subagent.description}\n")

    def _of_subagent(self, working: _SubagentText, event: Event) -> Iterator[Update]:
        """Yield what a subagent adds to its tool call."""
        if isinstance(event, Subagent):  # inside another one: a part of the same call
            if event.id not in self._calls:
                self._calls[event.id] = working.call
                yield ToolContentUpdate(
                    working.call, f"\n{event.title or 'Subagent'}\n", continues=True
                )
            self._note_state(event)
        for content in working.contents(event):
            yield ToolContentUpdate(working.call, content, continues=type(content) is str)

    def _note_state(self, subagent: Subagent) -> ToolStatus:
        """Forget the conversation of a subagent that has ended; return its status."""
        state = subagent.state
        if state is None or state.state != "idle":
            if subagent.id not in self._working:
                call = self._calls[subagent.id]
                self._working[subagent.id] = _SubagentText(call, Translator(self._version))
            return "in_progress"
        self._working.pop(subagent.id, None)
        return "completed" if state.stop_reason in (None, "end_turn") else "failed"


class _SubagentText:
    """What a subagent says and does, as content of the tool call."""

    def __init__(self, call: str, translator: Translator) -> None:
        self.call = call
        self.translator = translator
        self._tools: set[str] = set()
        self._final: set[str] = set()

    def contents(self, event: Event) -> Iterator[ContentBlock | Diff]:
        """Yield what the user is meant to see."""
        match event:
            case Text(text):
                yield str(text)
            case ContentChunk(content, "agent"):
                yield content
            case MessageReplaced("agent", _, content):
                yield from content
            case ToolCall():
                if event.id not in self._tools:
                    self._tools.add(event.id)
                    yield f"\n{event.title}\n"
                if event.is_final and event.id not in self._final:
                    self._final.add(event.id)
                    yield from (part for part in event.content if isinstance(part, Diff))
            case _:
                return
