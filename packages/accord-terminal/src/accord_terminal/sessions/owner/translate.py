"""Translates the updates of a session for clients of the other version, and for text.

A `SessionTranslator` also shows subagents as tool calls. Transcripts that are not read are bounded:
the journal on the disk has the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from accord.agent.updates import (
    CommandsUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    Update,
)
from accord.client.events import (
    AgentTerminal,
    CommandsChanged,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    ModeChanged,
    Notice,
    OptionsChanged,
    Plan,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UsageChanged,
    UserText,
)
from accord.client.transcript import Transcript, forget_items
from accord.errors import DecodeError
from accord.proxy.updates import proxied_version
from accord.types.content import ContentBlock, TextContent
from accord.types.tool_calls import Diff, ToolContent, ToolStatus

# Bounds transcripts that are not read: the journal on the disk has the conversation.

_KEPT = 64  # items: an update can change one of the last
_KEPT_CHARACTERS = 4_000_000  # of messages: with more, none is kept
_EVERY = 256  # updates


class Forgetting:
    """Counts the updates of a session, and forgets all but the end of its transcripts."""

    def __init__(self) -> None:
        self._updates = 0

    def is_due(self) -> bool:
        """Take notice of an update; return whether the transcripts are to be looked at."""
        self._updates += 1
        return self._updates % _EVERY == 0

    def forget(self, transcripts: Iterable[Transcript]) -> None:
        """Forget all but the end of each."""
        for transcript in transcripts:
            forget_items(transcript, _KEPT)
            if sum(len(message.text) for message in transcript.messages) > _KEPT_CHARACTERS:
                forget_items(transcript, 0)


_TOOL_FIELDS = (
    "title",
    "kind",
    "status",
    "name",
    "content",
    "locations",
    "raw_input",
    "raw_output",
    "cancellable",
)
_ROLES: dict[type, MessageRole] = {Text: "agent", Thought: "thought", UserText: "user"}


class Translator:
    """Reads the updates of one session in their order; it keeps the state that they change.

    With `forgets`, only the end of the conversation is kept, however long it is.
    """

    def __init__(self, version: int, *, forgets: bool = True) -> None:
        self._version = proxied_version(version)
        self.transcript: Transcript = Transcript()
        self._forgetting = Forgetting() if forgets else None
        self._tools: set[str] = set()
        self._terminals: set[str] = set()
        self._role: MessageRole | None = None  # of the current message, if it has no id
        self._messages = 0

    def events(self, update: Raw) -> tuple[Event, ...]:
        """Return the events of an update; none for one that cannot be read."""
        try:
            decoded = self._version.decode(self._version.types.SessionUpdate, update)
        except (DecodeError, msgspec.MsgspecError):
            return ()
        found = self._version.read(decoded, self.transcript)
        events = () if found is None else found if isinstance(found, tuple) else (found,)
        for event in events:
            self.transcript.apply(event)
        if self._forgetting is not None and self._forgetting.is_due():
            self._forgetting.forget((self.transcript,))
        return events

    def neutral(self, event: Event) -> Iterator[Update]:
        """Yield the neutral updates of an event; those of subagents are `SessionTranslator`'s."""
        match event:
            case Text(text, message_id) | Thought(text, message_id) | UserText(text, message_id):
                yield self._message(_ROLES[type(event)], message_id, (text,))
            case ContentChunk(content, role, message_id):
                yield self._message(role, message_id, (content,))
            case MessageReplaced(role, message_id, content):
                yield self._message(role, message_id, content)
            case ToolCall():
                self._role = None
                is_new = event.id not in self._tools
                self._tools.add(event.id)
                yield tool_call_update(event, is_new=is_new)
            case Plan():
                yield _plan(event)
            case CommandsChanged(commands):
                yield CommandsUpdate(commands)
            case OptionsChanged(options):
                yield OptionsUpdate(options)
            case ModeChanged():
                yield OptionsUpdate(self.transcript.options, mode_changed=True)
            case UsageChanged(usage):
                yield ContextUsageUpdate(usage)
            case TitleChanged(title):
                yield TitleUpdate(title)
            case Notice(severity, title, description):
                yield NoticeUpdate(severity, title, description)
            case Compaction():
                yield CompactionUpdate(
                    event.id,
                    event.status,
                    UNSET if event.error is None else event.error,
                    event.summary or UNSET,
                )
            case AgentTerminal():
                yield from self._terminal(event)
            case TerminalOutputChunk(terminal_id, data):
                yield TerminalOutputUpdate(terminal_id, data)
            case _:
                return

    def _message(
        self, role: MessageRole, message_id: str | None, content: tuple[ContentBlock, ...]
    ) -> MessageUpdate:
        if message_id is None:
            if role != self._role:
                self._messages += 1
            message_id = f"message-{self._messages}"
        self._role = role
        return MessageUpdate(role, message_id, content)

    def _terminal(self, event: AgentTerminal) -> Iterator[Update]:
        if event.id not in self._terminals:
            self._terminals.add(event.id)
            command, cwd = event.command or "", event.cwd or ""
            yield TerminalStarted(event.id, command, cwd, event.cancellable)
        if event.exited:
            yield TerminalExited(event.id, event.exit_code, event.signal)


def tool_call_update(event: ToolCall, *, is_new: bool) -> ToolCallUpdate:
    """Return a tool call, all of it if it is new, else what has changed."""
    names = _TOOL_FIELDS if is_new else [name for name in _TOOL_FIELDS if name in event.changed]
    values: dict[str, Any] = {name: getattr(event, name) for name in names}
    if "content" in values:
        values["content"] = tuple(values["content"])
    for name in ("name", "raw_input", "raw_output"):
        if values.get(name, UNSET) is None:
            del values[name]
    return ToolCallUpdate(id=event.id, is_new=is_new, **values)


def _plan(event: Plan) -> Update:
    plan_id = event.id or "plan"
    if event.removed:
        return PlanRemoved(plan_id)
    if event.markdown is not None:
        return PlanMarkdownUpdate(plan_id, event.markdown)
    if event.uri is not None:
        return PlanFileUpdate(plan_id, event.uri)
    return PlanUpdate(plan_id, event.entries)


# Translates the updates of a session and its subagents, which are shown as tool calls.
#
# Version 1 has subagents only for clients that announce them, and not all of those show them.

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
