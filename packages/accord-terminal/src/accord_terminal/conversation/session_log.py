"""One session as a growing list of entries for a page, with the version of each change.

`Wire` reads the messages of a protocol version as values of the client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accord import v1, v2
from accord.client import v1 as updates_v1
from accord.client import v2 as updates_v2
from accord.client.agent_adapter import (
    AgentAdapter,
    OpenedSession,
    SessionEventStream,
    UpdateReader,
)
from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    PermissionDecided,
    Plan,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UnknownUpdate,
    UserText,
)
from accord.client.transcript import Message, Transcript, calls_left_open
from accord.client.v1 import AgentAdapterV1
from accord.client.v2 import AgentAdapterV2
from accord.text import lenient_json
from accord.text.excerpt import visible
from accord.text.markdown_html import MarkdownParts
from accord.types import convert_v1, convert_v2
from accord.types.content import ContentBlock
from accord.types.session import SessionOption
from accord.v2.updates import MessageUpdateBase
from accord.version import ProtocolVersion
from accord.wire.codec import convert, decode
from accord_terminal.conversation.shown import contents_json


class _Details(Protocol):
    tool_call_id: str


class Wire:
    """The messages of a version that make a transcript. Its methods raise `DecodeError`."""

    def __init__(
        self,
        types: Any,
        adapter: AgentAdapter,
        read_update: UpdateReader,
        content: Callable[[Any], ContentBlock],
        apply_tool_call: Callable[[Any, Transcript], ToolCall | None],
    ) -> None:
        self.echoes_prompts: bool = adapter.echoes_prompts
        self.read_update: UpdateReader = read_update
        self._adapter = adapter
        self._content = content
        self._apply_tool_call = apply_tool_call
        self._types = types
        rows = {row.name: row for row in types.METHODS}
        self._update_type = rows["session/update"].params
        self._opened_types = {
            name: rows[name].result
            for name in ("session/new", "session/load", "session/resume", "session/fork")
            if name in rows
        }

    def update(self, params: msgspec.Raw) -> tuple[str, Any]:
        """Return the session id and the update of `session/update`."""
        decoded = decode(params, self._update_type)
        return decoded.session_id, decoded.update

    def prompt(self, blocks: Any) -> tuple[ContentBlock, ...]:
        """Return the content of a prompt."""
        decoded = convert(blocks, list[self._types.ContentBlock])
        return tuple(map(self._content, decoded))

    def opened(self, method: str, session_id: str, result: Any) -> OpenedSession:
        """Return what the response to a request contains that opens a session."""
        response = convert(result, self._opened_types[method])
        return self._adapter.opened_session(session_id, response)

    def options(
        self, options: Any, earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        """Return config options, and the modes among the earlier ones."""
        decoded = convert(options, list[self._types.SessionConfigOption])
        return self._adapter.keep_modes(tuple(self._adapter.options_from_wire(decoded)), earlier)

    def tool_call(self, details: Any, transcript: Transcript) -> tuple[str, ToolCall | None]:
        """Return the id of a tool call, and the call if the details change it."""
        decoded: _Details = convert(details, self._types.ToolCallDetails)
        return decoded.tool_call_id, self._apply_tool_call(decoded, transcript)


def wire_of(version: ProtocolVersion) -> Wire:
    """Return the reader of a version."""
    if version == 1:
        return Wire(
            v1,
            AgentAdapterV1(None),  # it calls nothing
            updates_v1.events_from_update,
            convert_v1.content_from_wire,
            updates_v1.apply_tool_call,
        )
    return Wire(
        v2,
        AgentAdapterV2(None),
        updates_v2.events_from_update,
        convert_v2.content_from_wire,
        updates_v2.apply_tool_call,
    )


def session_of(value: Any) -> str | None:
    """Return the session id in the params or the result of a message."""
    found = value.get("sessionId") if lenient_json.is_object(value) else None
    return found if isinstance(found, str) else None


_MAX_MESSAGE_CHARS = 1_000_000  # of one text of a message


class MessageParts:
    """The parts of a message. All but the last stay as they are while the message grows."""

    __slots__ = ("_changed", "_contents", "_markdown", "_message", "_parts")

    def __init__(self, message: Message) -> None:
        self._message = message
        self.reset()

    def reset(self) -> None:
        """Start from the beginning: the content was replaced."""
        self._contents = 0  # number of contents that are complete
        self._markdown: MarkdownParts | None = None  # of the text that follows them
        self._parts: list[dict[str, Any]] = []
        self._changed: list[int] = []  # the clock's time for each part

    def since(self, time: int, now: int) -> tuple[int, list[dict[str, Any]]]:
        """Render what is new at the time `now`; return the parts that changed after `time`.

        The number is that of the first one.
        """
        self._render(now)
        first = len(self._parts)
        while first and self._changed[first - 1] > time:
            first -= 1
        return first, self._parts[first:]

    def _render(self, now: int) -> None:
        contents = self._message.content
        while self._contents < len(contents):
            content = contents[self._contents]
            if not isinstance(content, str):
                self._put(len(self._parts), contents_json([content]), now)
                self._contents += 1
                self._markdown = None
                continue
            if self._message.role == "user":
                start = len(self._parts) - (self._markdown is not None)
                self._markdown = self._markdown or MarkdownParts()  # one part, without Markdown
                self._put(
                    start, [{"type": "plain", "text": visible(content[:_MAX_MESSAGE_CHARS])}], now
                )
            else:
                before = 0 if self._markdown is None else len(self._markdown.parts)
                self._markdown = self._markdown or MarkdownParts()
                start = len(self._parts) - before
                kept = self._markdown.update(content[:_MAX_MESSAGE_CHARS])
                new = [{"type": "text", "html": html} for html in self._markdown.parts[kept:]]
                self._put(start + kept, new, now)
            if self._contents == len(contents) - 1:
                return  # the last text can still grow
            self._contents += 1
            self._markdown = None

    def _put(self, start: int, parts: list[dict[str, Any]], now: int) -> None:
        """Replace the parts from `start` on, if they differ."""
        while parts and start < len(self._parts) and self._parts[start] == parts[0]:
            del parts[0]
            start += 1
        if parts or start < len(self._parts):
            del self._parts[start:], self._changed[start:]
            self._parts += parts
            self._changed += [now] * len(parts)


_MessageEvent: TypeAlias = Text | Thought | UserText | ContentChunk | MessageReplaced


class Clock:
    """Counts the changes of all sessions of a conversation."""

    def __init__(self) -> None:
        self.now: int = 0

    def tick(self) -> int:
        """Return the number of the next change."""
        self.now += 1
        return self.now


class Stamp(Struct, frozen=True):
    """The message that a change comes from: its number in the recording, and its second."""

    number: int | None = None
    seconds: float = 0.0


class Entry(Struct, kw_only=True, eq=False):
    """One item of the conversation, in the order of the first message about it.

    `value` is the item, or the JSON fields of an entry that the transcript does not have.
    """

    id: int
    kind: str
    stamp: Stamp
    value: Any
    changed: int = 0  # the clock's time of the last change
    last: int | None = None  # the number of the last message about it
    parts: MessageParts | None = None
    by: str = ""  # which client has said it, if several can
    problem: str = ""  # that this side has with the message, for the end of a turn


class _Stream(SessionEventStream):
    """Applies updates like the client, and hands the events to the log."""

    __slots__ = ("_apply",)

    def __init__(self, session_id: str, wire: Wire, apply: Callable[[Event], None]) -> None:
        super().__init__(session_id, wire.read_update)
        self._apply = apply

    def publish(self, event: Event, size: int = 0) -> None:
        self._apply(event)


class SessionLog:
    """The entries and the state of one session.

    `epoch` grows when the session is loaded again: then its entries start from 0.
    """

    def __init__(self, session_id: str, wire: Wire, clock: Clock, stamp: Stamp) -> None:
        self.id: str = session_id
        self.wire: Wire = wire
        self.clock: Clock = clock
        self.first: Stamp = stamp
        self.last: Stamp = stamp
        self.cwd: str | None = None
        self.is_closed: bool = False
        self.is_opened: bool = False  # whether the client has named it, or was told its id
        self.epoch: int = 0
        self.prompts: dict[Any, Stamp] = {}  # running, by connection and request id
        self.prompted: Stamp | None = None  # of the last prompt
        self.state_changed: int = clock.tick()
        self._start()

    def _start(self) -> None:
        self.stream: SessionEventStream = _Stream(self.id, self.wire, self.apply)
        self.entries: list[Entry] = []
        self._changed: OrderedDict[int, Entry] = OrderedDict()
        self._keys: dict[tuple[str, str], Entry] = {}
        self._last_item: Entry | None = None
        self._turn = 0
        self.turn_began: Stamp = self.last  # the last turn's prompt
        # By role and message id of the agent: the turn of the message, and its id here.
        self._is_replacement = False  # whether the update replaces a message
        self._message_ids: dict[tuple[str, str], tuple[int, str]] = {}
        self._stamp = self.last
        self.terminals_changed: dict[str, int] = {}

    @property
    def transcript(self) -> Transcript:
        """The current state of the session."""
        return self.stream.transcript

    @property
    def changed(self) -> int:
        """The time of the last change."""
        newest = next(reversed(self._changed.values())).changed if self._changed else 0
        return max(newest, self.state_changed, *self.terminals_changed.values())

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        state = self.transcript.state
        return bool(self.prompts) or (state is not None and state.state not in ("idle", "unknown"))

    def restart(self, wire: Wire, stamp: Stamp) -> dict[str, Any]:
        """Start from the beginning, before a replay; return what `restore` takes."""
        before = dict(self.__dict__)
        self.wire, self.last = wire, stamp
        self.epoch += 1
        self.prompts = {}
        self._start()
        self.touch()
        return before

    def restore(self, before: dict[str, Any]) -> None:
        """Return to the state before `restart`: the agent has refused."""
        epoch = self.epoch + 1
        self.__dict__.update(before)
        self.epoch = epoch
        self.touch()

    def changes_since(self, time: int) -> Iterator[Entry]:
        """Yield the entries that changed after this time, the newest change first."""
        for entry in reversed(self._changed.values()):
            if entry.changed <= time:
                return
            yield entry

    # Adding.

    def at(self, stamp: Stamp) -> SessionLog:
        """Set the message that the next changes come from."""
        self._stamp = self.last = stamp
        return self

    def touch(self) -> None:
        """Mark the state of the session as changed."""
        self.state_changed = self.clock.tick()

    def add(self, kind: str, value: Any) -> Entry:
        """Add an entry."""
        entry = Entry(id=len(self.entries), kind=kind, stamp=self._stamp, value=value)
        self.entries.append(entry)
        self.change(entry)
        return entry

    def add_failure(self, text: str) -> None:
        """Add a problem of this side; one with the end of a turn belongs to that entry."""
        last = self.entries[-1] if self.entries else None
        if last is not None and last.kind == "end" and last.stamp.number == self._stamp.number:
            last.problem = text
            self.change(last)
        else:
            self.add("failure", text)

    def change(self, entry: Entry) -> None:
        """Mark an entry as changed by the current message."""
        entry.changed = self.clock.tick()
        entry.last = self._stamp.number
        self._changed[entry.id] = entry
        self._changed.move_to_end(entry.id)

    def receive(self, update: Any) -> None:
        """Apply an update of the agent."""
        # Version 2 replaces a message by its id, also one of an earlier turn. If the new content
        # begins with the old one, the rest is applied as chunks.
        self._is_replacement = isinstance(update, MessageUpdateBase)
        self.stream.receive(update)

    def apply(self, event: Event) -> None:
        """Apply an event of the session."""
        transcript = self.transcript
        count = len(transcript.items)
        if isinstance(event, Text | Thought | UserText | ContentChunk | MessageReplaced):
            event = self._within_turn(event)
        transcript.apply(event)
        match event:
            case Text() | Thought() | UserText() | ContentChunk() | MessageReplaced():
                self._message(event, count)
            case ToolCall():
                known = transcript.tool_call(event.id)
                self._put("tool", event.id, replace(known or event, changed=()))
            case Plan():
                self._put("plan", event.id or "", event)
            case Compaction():
                self._put("compaction", event.id, event)
            case SessionMessage():
                self._put("session-message", event.id, event)
            case Subagent():
                self._put("subagent", event.id, event)
            case Notice() | UnknownUpdate():
                self.add("notice" if isinstance(event, Notice) else "unknown", event)
            case AgentTerminal() | TerminalOutputChunk():
                self.terminals_changed[event.id] = self.clock.tick()
            case StateChanged(state="idle", stop_reason=str()) if self.wire.echoes_prompts:
                began, self.prompted = self.prompted, None
                seconds = None if began is None else self._stamp.seconds - began.seconds
                self.end_turn(event, seconds)
            case PermissionDecided():
                pass  # the response tells it, too
            case _:
                self.touch()

    def begin_turn(self) -> None:
        """From now on, chunks with the id of an earlier message begin a new one."""
        self._turn += 1
        self.turn_began = self._stamp

    def _within_turn(self, event: _MessageEvent) -> _MessageEvent:
        """Return the event with another message id, if an earlier turn has used its id.

        A replacement names an earlier message by its id.
        """
        last = self._last_item
        if isinstance(event, UserText) and not self.prompts and last and last.value.role != "user":
            self.begin_turn()  # of a session that is loaded
        if event.message_id is None:
            return event
        key = (getattr(event, "role", None) or _ROLES[type(event)], event.message_id)
        turn, message_id = self._message_ids.get(key, (-1, event.message_id))
        if turn < 0 or (turn != self._turn and not self._is_replacement):
            if turn >= 0:
                message_id = f"{event.message_id} of turn {self._turn}"
            self._message_ids[key] = (self._turn, message_id)
        return event if message_id == event.message_id else replace(event, message_id=message_id)

    def skip(self) -> None:
        """Count an update that is not shown, in one entry for each turn."""
        known = self._keys.get(("skipped", str(self._turn)))
        if known is None:
            known = self._keys["skipped", str(self._turn)] = self.add("skipped", 0)
        known.value += 1
        self.change(known)

    def end_turn(self, event: StateChanged, seconds: float | None = None) -> None:
        """Add the end of a turn."""
        if not self.prompts:
            for call in calls_left_open(self.transcript, 2 if self.wire.echoes_prompts else 1):
                self.apply(call)
        self.add("end", (event, seconds))
        self.touch()

    def _message(self, event: Any, count: int) -> None:
        items = self.transcript.items
        message_id: str | None = event.message_id
        if len(items) > count:
            message = items[-1]
            assert isinstance(message, Message)
            entry = self.add("message", message)
            entry.parts = MessageParts(message)
            self._last_item = entry
            if message_id is not None:
                self._keys[message.role, message_id] = entry
        else:
            role = getattr(event, "role", None) or _ROLES[type(event)]
            known = None if message_id is None else self._keys.get((role, message_id))
            entry = known or self._last_item
            if entry is None:
                return
            self.change(entry)
        if isinstance(event, MessageReplaced) and entry.parts is not None:
            entry.parts.reset()

    def _put(self, kind: str, key: str, value: Any) -> None:
        entry = self._keys.get((kind, key))
        if entry is None:
            self._keys[kind, key] = self.add(kind, value)
            return
        entry.value = value
        self.change(entry)


_ROLES: dict[type, str] = {Text: "agent", Thought: "thought", UserText: "user"}
