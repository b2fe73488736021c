"""Translates the updates of a session and its subagents, which are shown as tool calls.

Version 1 has subagents only for clients that announce them, and not all of those show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from accord.agent.updates import ToolCallUpdate, ToolContentUpdate, Update
from accord.client.events import (
    ContentChunk,
    Event,
    MessageReplaced,
    StateChanged,
    Subagent,
    Text,
    ToolCall,
)
from accord.types.content import TextContent
from accord.types.tool_calls import Diff, ToolContent, ToolStatus
from accord_terminal.sessions.owner.translate import Translator

_Meta: TypeAlias = dict[str, Any] | None
_Shown: TypeAlias = ToolCallUpdate | ToolContentUpdate

_MAX_CALL_CHARS = 100_000  # of one tool call: version 1 sends all of its content again and again
_OMITTED = "\n(This is too long: the rest is only in the conversation of the subagent.)\n"


class SessionTranslator:
    """Reads the updates of a session and its subagents in their order."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._main = Translator(version)
        self._children: dict[str, _Child] = {}  # by session id
        self._skips = False
        self._skipped: dict[str, tuple[ToolCallUpdate, list[ToolContent]]] = {}  # by tool call

    def updates(self, session_id: str | None, update: Raw) -> Iterator[tuple[Update, _Meta]]:
        """Yield the neutral updates of the session, and their `_meta`.

        `session_id` is that of the subagent whose update it is.
        """
        if session_id is None:
            for event in self._main.events(update):
                if isinstance(event, Subagent):
                    shown = self._sent(self._subagent(event, None))
                    yield from ((each, event.meta) for each in shown)
                else:
                    meta = getattr(event, "meta", None)
                    yield from ((neutral, meta) for neutral in self._main.neutral(event))
        elif (child := self._children.get(session_id)) is not None:
            yield from ((each, None) for each in self._sent(self._of_child(child, update)))

    def skip(self, session_id: str | None, update: Raw) -> None:
        """Read an update that the client is not sent; later ones continue it."""
        self._skips = True
        for _ in self.updates(session_id, update):
            pass
        self._skips = False

    def _sent(self, updates: Iterator[_Shown]) -> Iterator[_Shown]:
        """Yield the updates, each skipped tool call as a whole before its next update."""
        for shown in updates:
            if self._skips:
                self._skip(shown)
                continue
            if (skipped := self._skipped.pop(shown.id, None)) is not None:
                call, content = skipped
                yield replace(call, is_new=True, content=tuple(_joined(content)))
            yield shown

    def _skip(self, shown: _Shown) -> None:
        if isinstance(shown, ToolContentUpdate):
            if shown.id in self._skipped:
                self._skipped[shown.id][1].append(shown.content)
        elif shown.is_new:
            self._skipped[shown.id] = (shown, [])
        elif shown.status == "in_progress":
            self._skipped[shown.id] = (shown, self._skipped[shown.id][1])
        else:
            self._skipped.pop(shown.id, None)

    def _subagent(self, subagent: Subagent, parent: _Child | None) -> Iterator[_Shown]:
        """Yield the tool call of a subagent, or its title in that of its parent."""
        child = self._children.get(subagent.id)
        is_first = child is None
        if child is None:
            child = self._children[subagent.id] = _Child(subagent.id)
        child.note(subagent)
        if child.call is None or child.call.has_ended:
            if is_first and parent is not None and parent.is_shown:
                child.call = parent.call
                yield from self._add(child, f"\n{child.title}\n")
            elif is_first or child.is_working:
                yield from self._begin(child)
                if subagent.description:
                    yield from self._add(child, f"{subagent.description}\n")
                if not child.is_working:
                    yield child.update()
        elif child.call.owner is child:
            yield child.update()
        if not child.is_working:
            child.end()

    def _of_child(self, child: _Child, update: Raw) -> Iterator[_Shown]:
        """Yield what a subagent adds to its tool call."""
        work = child.work
        if work is None:
            work = _SubagentText(Translator(self._version))
            if child.is_working:
                child.work = work
        for event in work.translator.events(update):
            if isinstance(event, Subagent):
                yield from self._subagent(event, child)
            for content in work.contents(event):
                yield from self._add(child, content)

    def _begin(self, child: _Child) -> Iterator[_Shown]:
        """Yield a new tool call: clients of version 1 have lost the content of one that ended."""
        child.runs += 1
        call_id = child.id if child.runs == 1 else f"{child.id} {child.runs}"
        child.call = _Call(call_id, child)
        yield replace(child.update(), is_new=True)

    def _add(self, child: _Child, content: ToolContent) -> Iterator[_Shown]:
        if content == "":
            return
        if child.call is None or child.call.has_ended:
            yield from self._begin(child)
        call = child.call
        assert call is not None
        for part in call.fitting(content):
            yield ToolContentUpdate(call.id, part, continues=type(part) is str)


class _Child:
    """A subagent, at any level below the session."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.title = "Subagent"
        self.status: ToolStatus = "in_progress"
        self.runs = 0  # tool calls that were begun for it
        self.call: _Call | None = None  # the last one
        self.work: _SubagentText | None = None

    @property
    def is_working(self) -> bool:
        return self.status == "in_progress"

    @property
    def is_shown(self) -> bool:
        """Whether its tool call still takes content."""
        return self.call is not None and not self.call.has_ended

    def note(self, subagent: Subagent) -> None:
        """Take over what the parent says about it."""
        self.title = subagent.title or self.title
        match subagent.state:
            case None:  # it is unknown
                pass
            case StateChanged(state="idle", stop_reason=None | "end_turn"):
                self.status = "completed"
            case StateChanged(state="idle"):
                self.status = "failed"
            case _:
                self.status = "in_progress"

    def end(self) -> None:
        """Forget the conversation; what comes late begins another tool call."""
        self.work = None
        if self.call is not None and self.call.owner is self:
            self.call.has_ended = True

    def update(self) -> ToolCallUpdate:
        """Return the present state of its own tool call."""
        assert self.call is not None
        return ToolCallUpdate(id=self.call.id, title=self.title, kind="think", status=self.status)


class _Call:
    """A tool call that shows what a subagent and those inside it do until it is idle."""

    def __init__(self, call_id: str, owner: _Child) -> None:
        self.id = call_id
        self.owner = owner
        self.has_ended = False
        self._room = _MAX_CALL_CHARS  # below 0 if content was omitted

    def fitting(self, content: ToolContent) -> Iterator[ToolContent]:
        """Yield the content, or the part of it that fits."""
        if self._room < 0:
            return
        if (size := _size(content)) <= self._room:
            self._room -= size
            yield content
            return
        if type(content) is str:
            yield content[: self._room]
        self._room = -1
        yield _OMITTED


class _SubagentText:
    """What a subagent says and does, as content of the tool call."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._tools: set[str] = set()
        self._final: set[str] = set()

    def contents(self, event: Event) -> Iterator[ToolContent]:
        """Yield what the user is meant to see."""
        match event:
            case Text(text):
                yield str(text)
            case ContentChunk(content, "agent"):
                yield content
            case MessageReplaced("agent", _, content):
                yield from content
            case ToolCall():
                if event.id not in self._tools and event.title:
                    self._tools.add(event.id)
                    yield f"\n{event.title}\n"
                if event.is_final and event.id not in self._final:
                    self._final.add(event.id)
                    yield from (part for part in event.content if isinstance(part, Diff))
            case _:
                return


def _size(content: ToolContent) -> int:
    if isinstance(content, TextContent):
        return len(content) + len(msgspec.json.encode((content.annotations, content.meta)))
    return len(content) if isinstance(content, str) else len(msgspec.json.encode(content))


def _joined(contents: list[ToolContent]) -> Iterator[ToolContent]:
    """Yield the contents, consecutive texts as one."""
    texts: list[str] = []
    for content in contents:
        if type(content) is str:
            texts.append(content)
            continue
        if texts:
            yield "".join(texts)
            texts.clear()
        yield content
    if texts:
        yield "".join(texts)
