"""The transcript of a session: the accumulated state of its events.

`Message` grows by chunks; `Transcript` has messages, tool calls, plans and the rest in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.client.events import (
    UNFINISHED,
    AgentTerminal,
    CommandsChanged,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    ModeChanged,
    OptionsChanged,
    Plan,
    Role,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    TitleChanged,
    ToolCall,
    UpdatedAtChanged,
    UsageChanged,
    UserText,
)
from accord.text.excerpt import excerpt, one_line
from accord.types.content import ContentBlock, text_of
from accord.types.session import AvailableCommand, ContextUsage, SelectOption, SessionOption

# Growing messages, and the text of several of them.
#
# Each chunk is joined only once, however often the text is read. CPython appends to a string in
# place if it has only one reference, so strings are removed from their container before they grow.

_TEXT_EVENTS: dict[Role, type[Text] | type[Thought] | type[UserText]] = {
    "agent": Text,
    "thought": Thought,
    "user": UserText,
}

_MAX_REPR_CHARS = 60  # in a repr
_MAX_PARTS = 1024  # chunks of a message before they are joined


def merge_texts(contents: Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Return content with consecutive texts joined, and empty ones removed."""
    whole: list[ContentBlock] = []
    texts: list[str] = []
    for content in contents:
        if isinstance(content, str):
            texts.append(content)
            continue
        if text := "".join(texts):
            whole.append(text)
        texts.clear()
        whole.append(content)
    if text := "".join(texts):
        whole.append(text)
    return tuple(whole)


def continuation(
    old: tuple[ContentBlock, ...], new: tuple[ContentBlock, ...]
) -> tuple[ContentBlock, ...] | None:
    """Return the part of new content that continues the old, None if it does not continue it."""
    if new[: len(old)] == old:
        # Text behind text would be one text.
        return new[len(old) :]
    *before, last = old
    if len(new) < len(old) or new[: len(before)] != tuple(before):
        return None
    further = new[len(before)]
    if isinstance(last, str) and isinstance(further, str) and further.startswith(last):
        return (further[len(last) :], *new[len(old) :])
    return None


class Message(Struct, gc=False, eq=False):
    """A message or thought; it can still grow.

    A transcript has thousands of them, so that the garbage collector tracks neither the message
    nor, once it is settled, anything in a message of text.
    """

    role: Role
    id: str | None
    _text: str = ""  # the text so far
    _whole: list[ContentBlock] | None = None  # the content so far; None if it is only the text
    _parts: list[ContentBlock] | None = None  # not joined yet

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The content so far."""
        self.settle()
        if self._whole is not None:
            return tuple(self._whole)
        return (self._text,) if self._text else ()

    @property
    def text(self) -> str:
        """The text so far, with links and resources as Markdown."""
        self.settle()
        return self._text

    def append(self, content: ContentBlock) -> None:
        """Append content."""
        parts = self._parts
        if parts is None:
            if not self._text and self._whole is None and isinstance(content, str):
                self._text = content
            else:
                self._parts = [content]
            return
        parts.append(content)
        if len(parts) >= _MAX_PARTS:
            self.settle()

    def extend(self, texts: list[str]) -> None:
        """Append texts."""
        if self._parts is None:
            self._parts = list[ContentBlock](texts)
        else:
            self._parts += texts
        if len(self._parts) >= _MAX_PARTS:
            self.settle()

    def replace(self, content: tuple[ContentBlock, ...]) -> None:
        """Replace the content."""
        self._text, self._whole = "", None
        self._parts = list(content)
        self.settle()

    def settle(self) -> None:
        """Join the new chunks with the rest."""
        if not self._parts:
            return
        new = merge_texts(self._parts)
        self._parts = None
        for content in new:
            if self._whole is None and not isinstance(content, str):
                self._whole = [self._text] if self._text else []
            whole = self._whole
            continues = not whole or (isinstance(content, str) and isinstance(whole[-1], str))
            more = content if isinstance(content, str) else text_of((content,))
            text, self._text = self._text, ""
            if more and text and not continues:
                text += "\n"
            text += more
            self._text = text
            if whole is None:
                continue
            if whole and continues:
                last: Any = whole.pop()
                last += content
                whole.append(last)
            else:
                whole.append(content)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Message)
            and (self.role, self.id) == (other.role, other.id)
            and self.content == other.content
        )

    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        text = excerpt(self.text, _MAX_REPR_CHARS)
        return f"<Message of role {self.role!r}, {len(self.content)} parts: {text!r}>"


class AgentText:
    """The text of the agent from an item of a transcript on, joined when it is read."""

    __slots__ = ("_changes", "_first", "_last", "_next", "_taken", "_text")

    def __init__(self, first: int) -> None:
        self._first = first
        self._changes = 0
        self._start()

    def _start(self) -> None:
        self._next = self._first
        self._last: Message | None = None  # `_text` contains its first `_taken` characters
        self._taken = 0
        self._text = ""

    def read(self, items: Sequence[object], until: int | None, changes: int) -> str:
        """Return the text; `changes` is the number of changes of older messages."""
        if changes != self._changes:
            self._changes = changes
            self._start()
        end = len(items) if until is None else min(until, len(items))
        grown = [] if self._last is None else [self._last]
        for index in range(self._next, end):
            item = items[index]
            if isinstance(item, Message) and item.role == "agent":
                grown.append(item)
        self._next = max(self._next, end)
        text, self._text = self._text, ""
        for message in grown:
            if message is not self._last:
                self._last, self._taken = message, 0
            if more := message.text[self._taken :]:
                if text and not self._taken:
                    text += "\n\n"
                text += more
                self._taken += len(more)
        self._text = text
        return text


def message_events(message: Message) -> Iterator[Event]:
    """Return the shortest list of events that results in a message."""
    role, message_id = message.role, message.id
    content = message.content
    if not content:
        yield _TEXT_EVENTS[role]("", message_id)
    for part in content:
        if isinstance(part, str):
            yield _TEXT_EVENTS[role](part, message_id)
        else:
            yield ContentChunk(part, role, message_id)


# Transcripts as Markdown, for notebooks.

_MAX_THOUGHT_CHARS = 500  # of a thought
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "✗"}
_BOXES = {"completed": "x"}


def markdown_of(items: Iterable[object], plans: Iterable[Plan]) -> str:
    """Return the items of a transcript in order, and then the plans."""
    parts = [part for item in items if (part := _item(item))]
    parts += [_plan(plan) for plan in plans]
    return "\n\n".join(parts)


def _item(item: object) -> str:
    match item:
        case Message(role="agent"):
            return item.text
        case Message(role="user"):
            return _quoted(f"**User:** {item.text}")
        case Message():
            return (
                _quoted(f"*{excerpt(item.text.strip(), _MAX_THOUGHT_CHARS)}*") if item.text else ""
            )
        case ToolCall(title=title, status=status, kind=kind):
            line = one_line(title or kind, 200).replace("`", "'")
            left = f" *({UNFINISHED})*" if item.shown_status == UNFINISHED else ""
            return f"{_MARKS.get(status, '…')} `{line}`{left}"
        case Compaction(status=status):
            return f"*Compaction of the conversation: {one_line(status, 60)}*"
        case SessionMessage(sender=sender, recipient=recipient):
            return f"*Message from `{sender}` to `{recipient}`*"
        case _:
            return ""


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _plan(plan: Plan) -> str:
    if plan.markdown is not None:
        return plan.markdown
    steps = (
        f"- [{_BOXES.get(entry.status, ' ')}] {one_line(entry.content)}" for entry in plan.entries
    )
    return "\n".join(steps)


class TerminalTranscript:
    """A terminal and its output."""

    __slots__ = ("output", "terminal")

    def __init__(self, terminal: AgentTerminal) -> None:
        self.terminal: AgentTerminal = terminal
        self.output: bytearray = bytearray()

    @property
    def text(self) -> str:
        """The output as text; invalid UTF-8 is replaced."""
        return self.output.decode("utf-8", "replace")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TerminalTranscript)
            and self.terminal == other.terminal
            and self.output == other.output
        )

    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        state = "exited" if self.terminal.exited else "running"
        return f"<TerminalTranscript {self.terminal.id!r}, {state}: {len(self.output)} bytes>"


# What `Transcript.items` has.
Item: TypeAlias = Message | ToolCall | Compaction | SessionMessage


class Transcript:
    """The current state of a session: the items of the conversation in order, and its settings.

    `apply` applies an event; `events` returns the shortest list of events with the same result.
    """

    # Slots, since a connection can have thousands of sessions.
    __slots__ = (
        "_agent_text",
        "_changes",
        "_index",
        "_last",
        "_mode",
        "_newest",
        "_open_tool_calls",
        "_prompt_count",
        "commands",
        "items",
        "options",
        "plans",
        "state",
        "subagents",
        "terminals",
        "title",
        "updated_at",
        "usage",
    )

    def __init__(self) -> None:
        self.items: list[Item] = []
        """Messages, tool calls and the like, in the order of their first update."""
        self.plans: dict[str | None, Plan] = {}
        """The plans by id."""
        self.options: tuple[SessionOption, ...] = ()
        """The config options of the session, with their values."""
        self.commands: tuple[AvailableCommand, ...] = ()
        """The commands that a prompt can begin with."""
        self.terminals: dict[str, TerminalTranscript] = {}
        """The terminals of the agent, with their output, by id."""
        self.usage: ContextUsage | None = None
        """How much of the context window is used."""
        self.title: str | None = None
        """The title of the session."""
        self.updated_at: str | None = None
        """When the session last changed, in RFC 3339."""
        self.subagents: dict[str, Subagent] = {}
        """The subagents by session id."""
        self.state: StateChanged | None = None
        """The state of the session, if the agent reports it."""
        self._mode: str | None = None  # if there is no mode option
        self._index: dict[tuple[str, str], int] = {}
        self._last: Message | None = None  # the last item, if it is a message
        self._newest: Message | None = None  # the last message of the agent
        self._changes = 0  # of agent messages other than the newest, or of existing text
        self._agent_text = AgentText(0)
        self._prompt_count = 0  # number of user messages
        self._open_tool_calls: dict[str, None] = {}  # their ids

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Transcript:
        """Return the transcript of these events."""
        transcript = cls()
        for event in events:
            transcript.apply(event)
        return transcript

    # The conversation.

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, in order."""
        return [item for item in self.items if isinstance(item, Message)]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls in their current state, in the order in which they began."""
        return [item for item in self.items if isinstance(item, ToolCall)]

    @property
    def text(self) -> str:
        """The text of the agent's messages, separated by empty lines."""
        return self._agent_text.read(self.items, None, self._changes)

    @property
    def plan(self) -> Plan | None:
        """The plan, the first one if there are several."""
        return next(iter(self.plans.values()), None)

    @property
    def mode(self) -> str | None:
        """The mode of the session, None if it has no modes."""
        option = self.mode_option
        return self._mode if option is None else option.value

    @property
    def mode_option(self) -> SelectOption | None:
        """The config option for the mode."""
        for option in self.options:
            if isinstance(option, SelectOption) and option.category == "mode":
                return option
        return None

    @property
    def prompt_count(self) -> int:
        """The number of user messages."""
        return self._prompt_count

    @property
    def open_tool_calls(self) -> list[ToolCall]:
        """The tool calls that the agent is still at (`ToolCall.is_open`)."""
        calls = (self.tool_call(call_id) for call_id in self._open_tool_calls)
        return [call for call in calls if call is not None]

    def message(self, role: Role, message_id: str) -> Message | None:
        """Return the message of a role with this id, None if there is none."""
        return self._find(role, message_id, Message)

    def tool_call(self, call_id: str) -> ToolCall | None:
        """Return the tool call with this id, None if there is none."""
        return self._find("tool call", call_id, ToolCall)

    def compaction(self, compaction_id: str) -> Compaction | None:
        """Return the compaction with this id, None if there is none."""
        return self._find("compaction", compaction_id, Compaction)

    def session_message(self, message_id: str) -> SessionMessage | None:
        """Return the session message with this id, None if there is none."""
        return self._find("session message", message_id, SessionMessage)

    def _find(self, kind: str, key: str, cls: type[Any]) -> Any:
        place = self._index.get((kind, key))
        if place is None:
            return None
        item = self.items[place]
        assert isinstance(item, cls)
        return item

    # Applying events.

    def apply(self, event: Event) -> None:
        """Apply an event."""
        if type(event) is Text:
            last = self._last
            if last is None or last.id != event.message_id or last.role != "agent":
                last = self._message("agent", event.message_id)
            last.append(event.text)
            return
        apply = self._APPLY.get(type(event))
        if apply is not None:
            apply(self, event)

    def _message(self, role: Role, message_id: str | None) -> Message:
        last = self._last
        if message_id is None:
            if last is not None and last.role == role and last.id is None:
                return last
        elif (known := self.message(role, message_id)) is not None:
            if role == "agent" and known is not self._newest:
                self._changes += 1
            return known
        new = Message(role, message_id)
        self._settle()
        if role == "agent":
            self._newest = new
        elif role == "user":
            self._prompt_count += 1
        if message_id is not None:
            self._index[role, message_id] = len(self.items)
        self.items.append(new)
        self._last = new
        return new

    def _settle(self) -> None:
        """Join the chunks of the last message: it rarely grows once another item begins."""
        if self._last is not None:
            self._last.settle()

    def _thought(self, event: Thought) -> None:
        self._message("thought", event.message_id).append(event.text)

    def _user_text(self, event: UserText) -> None:
        self._message("user", event.message_id).append(event.text)

    def _media(self, event: ContentChunk) -> None:
        self._message(event.role, event.message_id).append(event.content)

    def _rewritten(self, event: MessageReplaced) -> None:
        self._message(event.role, event.message_id).replace(event.content)
        if event.role == "agent":
            self._changes += 1

    def _tool_call(self, event: ToolCall) -> None:
        self._put("tool call", event.id, replace(event, changed=()))
        if event.is_open:
            self._open_tool_calls[event.id] = None
        else:
            self._open_tool_calls.pop(event.id, None)

    def _compaction(self, event: Compaction) -> None:
        self._put("compaction", event.id, event)

    def _session_message(self, event: SessionMessage) -> None:
        self._put("session message", event.id, event)

    def _subagent(self, event: Subagent) -> None:
        self.subagents[event.id] = event

    def _put(self, kind: str, key: str, item: ToolCall | Compaction | SessionMessage) -> None:
        place = self._index.setdefault((kind, key), len(self.items))
        if place == len(self.items):
            self.items.append(item)
            self._settle()
            self._last = None
        else:
            self.items[place] = item

    def _plan(self, event: Plan) -> None:
        if event.removed:
            self.plans.pop(event.id, None)
        else:
            self.plans[event.id] = event

    def _options(self, event: OptionsChanged) -> None:
        self.options = event.options

    def _mode_changed(self, event: ModeChanged) -> None:
        self._mode = event.mode
        option = self.mode_option
        if option is not None:
            changed = replace(option, value=event.mode)
            self.options = tuple(changed if o is option else o for o in self.options)

    def _commands(self, event: CommandsChanged) -> None:
        self.commands = event.commands

    def _usage(self, event: UsageChanged) -> None:
        self.usage = event.usage

    def _title(self, event: TitleChanged) -> None:
        self.title = event.title

    def _updated_at(self, event: UpdatedAtChanged) -> None:
        self.updated_at = event.updated_at

    def _state(self, event: StateChanged) -> None:
        self.state = event

    def _terminal(self, event: AgentTerminal) -> None:
        self._terminal_transcript(event.id).terminal = event

    def _output(self, event: TerminalOutputChunk) -> None:
        output = self._terminal_transcript(event.id).output
        if event.replaces:
            output.clear()
        output += event.data

    def _terminal_transcript(self, terminal_id: str) -> TerminalTranscript:
        known = self.terminals.get(terminal_id)
        if known is None:
            known = self.terminals[terminal_id] = TerminalTranscript(AgentTerminal(id=terminal_id))
        return known

    def _items_removed(self) -> None:
        """Take notice that items were removed from the list."""
        self._index = {
            key: place for place, item in enumerate(self.items) if (key := _key(item)) is not None
        }
        if not any(item is self._last for item in self.items[-1:]):
            self._last = None
        if not any(item is self._newest for item in self.items):
            self._newest = None
        self._changes += 1

    _APPLY: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Thought: _thought,
        UserText: _user_text,
        ContentChunk: _media,
        MessageReplaced: _rewritten,
        ToolCall: _tool_call,
        Plan: _plan,
        CommandsChanged: _commands,
        ModeChanged: _mode_changed,
        OptionsChanged: _options,
        UsageChanged: _usage,
        TitleChanged: _title,
        UpdatedAtChanged: _updated_at,
        Compaction: _compaction,
        Subagent: _subagent,
        SessionMessage: _session_message,
        AgentTerminal: _terminal,
        TerminalOutputChunk: _output,
        StateChanged: _state,
    }

    # Back to events.

    def events(self) -> Iterator[Event]:
        """Return the shortest list of events that results in this transcript."""
        for item in self.items:
            if isinstance(item, Message):
                yield from message_events(item)
            else:
                yield item
        yield from self.plans.values()
        if self._mode is not None:
            yield ModeChanged(self._mode)
        if self.options:
            yield OptionsChanged(self.options)
        if self.commands:
            yield CommandsChanged(self.commands)
        for shell in self.terminals.values():
            if not shell.output or shell.terminal != AgentTerminal(id=shell.terminal.id):
                yield shell.terminal
            if shell.output:
                yield TerminalOutputChunk(shell.terminal.id, bytes(shell.output))
        if self.usage is not None:
            yield UsageChanged(self.usage)
        if self.title is not None:
            yield TitleChanged(self.title)
        if self.updated_at is not None:
            yield UpdatedAtChanged(self.updated_at)
        yield from self.subagents.values()
        if self.state is not None:
            yield self.state

    def __repr__(self) -> str:
        calls = sum(isinstance(item, ToolCall) for item in self.items)
        messages = sum(isinstance(item, Message) for item in self.items)
        title = "" if self.title is None else f" {excerpt(self.title, 60)!r}"
        state = "" if self.state is None else f", {excerpt(self.state.state, 60)}"
        return f"<Transcript{title}: messages: {messages}, tool calls: {calls}{state}>"

    def _repr_markdown_(self) -> str:
        return markdown_of(self.items, self.plans.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and self._equality_key() == other._equality_key()

    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable

    def _equality_key(self) -> tuple[Any, ...]:
        return (
            self.items,
            self.plans,
            self.options,
            self.commands,
            self.terminals,
            self.usage,
            self.title,
            self.updated_at,
            self.subagents,
            self.state,
            self._mode,
        )


# Functions, since completion would show methods to users, who only read. They use the class of
# this module.


def read_agent_text(transcript: Transcript, text: AgentText, until: int | None = None) -> str:
    """Return the text of the agent from an item on, up to the item `until`."""
    changes = transcript._changes  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return text.read(transcript.items, until, changes)


def append_texts(transcript: Transcript, message_id: str | None, texts: list[str]) -> None:
    """Apply several `Text` events of one message."""
    message = transcript._message("agent", message_id)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    message.extend(texts)


def forget_items(transcript: Transcript, keep: int) -> None:
    """Forget the conversation but the last `keep` items and the open tool calls.

    The settings and the plans stay; the output of terminals is forgotten. For a process that
    passes updates on for days.
    """
    items = transcript.items
    first = len(items) - keep
    items[:] = [
        item
        for place, item in enumerate(items)
        if place >= first or (isinstance(item, ToolCall) and item.is_open)
    ]
    transcript._items_removed()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for shell in transcript.terminals.values():
        shell.output.clear()


def calls_left_open(transcript: Transcript, version: int) -> list[ToolCall]:
    """Return the open tool calls as `unfinished`, for the end of a turn in a protocol version.

    A turn of version 1 ends with all its work. In version 2, work can continue in the
    background, unless the agent reports that none does (R-BGW-01).
    """
    state = transcript.state
    if version != 1 and (state is None or state.state != "idle" or state.background != ()):
        return []
    calls = transcript.open_tool_calls
    return [replace(call, unfinished=True, changed=("unfinished",)) for call in calls]


def _key(item: Item) -> tuple[str, str] | None:
    """Return what the index has for an item; None for a message without an id."""
    match item:
        case Message():
            return None if item.id is None else (item.role, item.id)
        case ToolCall():
            return "tool call", item.id
        case Compaction():
            return "compaction", item.id
        case _:
            return "session message", item.id
