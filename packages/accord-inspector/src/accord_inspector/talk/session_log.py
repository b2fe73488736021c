"""One session as a growing list of entries for the page, with the version of each change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from accord.client.event_stream import SessionEventStream
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
from accord.client.message import Message
from accord.client.transcript import Transcript, calls_left_open
from accord.v2.updates import MessageUpdateBase
from accord_inspector.talk.message_parts import MessageParts
from accord_inspector.talk.wire import Wire

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
