"""The entries of a conversation in the order in which they are shown, and which have changed.

An entry refers to an item of the transcript, or is a remark of this program. Events only mark what
has changed; `sync` then looks at the transcript, once for all events since the last frame.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    PermissionDecided,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)
from accord.client.transcript import Item, Message, TerminalTranscript, Transcript
from accord.types.tool_calls import Diff, TerminalView

Severity: TypeAlias = Literal["info", "warning", "error", "quiet"]


class Remark(Struct, frozen=True):
    """A line of this program, or a notice of the agent."""

    text: str
    severity: Severity = "info"
    details: str = ""
    ends_turn: bool = False


class Entry(Struct, kw_only=True, eq=False):
    """One part of the conversation; `version` grows with each change."""

    content: Item | Remark
    version: int = 0
    replaced: int = 0  # how often the agent has replaced a message
    expanded: bool | None = None  # None: not chosen by the user
    terminals: tuple[TerminalTranscript, ...] = ()  # that a tool call shows
    is_open: bool = False  # a message that may still grow
    places: dict[Diff, int] = {}  # lines of the file before the text
    without_place: dict[Diff, object] = {}  # and of which state of the file


class Timeline:
    """The entries of one session."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.entries: list[Entry] = []
        self.changed: set[int] = set()  # positions of entries, since the last `take_changed`
        self.side_changed = True  # something outside of the conversation: options, plans, usage
        self._entry_of: list[int] = []  # by item
        self._items: dict[tuple[str, str], int] = {}  # messages and calls by id
        self._touched: set[tuple[str, str]] = set()
        self._entries_of_terminal: dict[str, set[int]] = {}
        self._open: set[int] = set()

    @property
    def prompts(self) -> list[str]:
        """What the user has said, the earliest first."""
        contents = (entry.content for entry in self.entries)
        return [one.text for one in contents if isinstance(one, Message) and one.role == "user"]

    def continue_with(self, transcript: Transcript) -> None:
        """Go on with another transcript below the existing entries."""
        self.sync()
        self.close_messages()
        self.transcript = transcript
        self._entry_of, self._items, self._touched = [], {}, set()
        self._entries_of_terminal = {}
        self.side_changed = True

    def apply(self, event: Event) -> None:
        """Note what an event changes; the transcript has already applied it."""
        match event:
            case Text(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("agent", message_id))
            case Thought(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("thought", message_id))
            case UserText(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("user", message_id))
            case ContentChunk(role=role, message_id=message_id):
                if message_id is not None:
                    self._touched.add((role, message_id))
            case MessageReplaced(role=role, message_id=message_id):
                self._touched.add((role, message_id))
                number = self._items.get((role, message_id))
                if number is not None:
                    self.entries[self._entry_of[number]].replaced += 1
            case ToolCall(id=call_id):
                self._touched.add(("tool call", call_id))
            case Compaction(id=item_id):
                self._touched.add(("compaction", item_id))
            case SessionMessage(id=item_id):
                self._touched.add(("session message", item_id))
            case AgentTerminal(id=terminal) | TerminalOutputChunk(id=terminal):
                for at in self._entries_of_terminal.get(terminal, ()):
                    self._change(at)
            case Notice(severity=severity, title=title, description=description):
                known = severity if severity in ("info", "warning", "error") else "info"
                self.remark(title, known, description or "")
            case PermissionDecided(request=request, option=option):
                if option is None:
                    self.remark(f"Not answered here: {request.title}", "quiet")
                elif not option.allows:
                    self.remark(f"Rejected: {request.title}", "warning")
            case StateChanged() | Subagent():
                self.side_changed = True
            case _:
                self.side_changed = True

    def remark(self, text: str, severity: Severity = "info", details: str = "") -> None:
        """Add a remark below everything that has happened so far."""
        self.sync()
        self._add(Entry(content=Remark(text, severity, details)))

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call that is not of the transcript, folded."""
        self.sync()
        self._add(Entry(content=call, expanded=False))

    def end_turn(self, text: str, severity: Severity) -> None:
        """Add the remark below a turn."""
        self.sync()
        self._add(Entry(content=Remark(text, severity, ends_turn=True)))

    def close_messages(self) -> None:
        """Note that no message grows any more: the turn has ended."""
        self.sync()
        self._close_open()

    def sync(self) -> None:
        """Take over what has changed in the transcript."""
        items = self.transcript.items
        known = len(self._entry_of)
        if known and isinstance(items[known - 1], Message):
            self._change(self._entry_of[known - 1])  # text without an id continues the last item
        for number in range(known, len(items)):
            self._add_item(items[number], number)
        for key in self._touched:
            number = self._items.get(key)
            if number is not None and number < known:
                self._update(number)
        self._touched.clear()

    def take_changed(self) -> set[int]:
        """Return the positions of the changed entries, and forget them."""
        changed, self.changed = self.changed, set()
        return changed

    def _add_item(self, item: Item, number: int) -> None:
        self._close_open()  # only the last message is expected to grow
        entry = Entry(content=item)
        at = self._add(entry)
        self._entry_of.append(at)
        match item:
            case Message(role=role, id=message_id):
                entry.is_open = True
                self._open.add(at)
                if message_id is not None:
                    self._items[role, message_id] = number
            case ToolCall(id=item_id):
                self._items["tool call", item_id] = number
                self._find_terminals(entry, at)
            case Compaction(id=item_id):
                self._items["compaction", item_id] = number
            case SessionMessage(id=item_id):
                self._items["session message", item_id] = number

    def _close_open(self) -> None:
        for at in self._open:
            self.entries[at].is_open = False
            self._change(at)
        self._open.clear()

    def _update(self, number: int) -> None:
        at = self._entry_of[number]
        entry = self.entries[at]
        entry.content = self.transcript.items[number]
        self._find_terminals(entry, at)
        self._change(at)

    def _find_terminals(self, entry: Entry, at: int) -> None:
        if not isinstance(entry.content, ToolCall):
            return
        shown: list[TerminalTranscript] = []
        for part in entry.content.content:
            if isinstance(part, TerminalView):
                self._entries_of_terminal.setdefault(part.terminal_id, set()).add(at)
                known = self.transcript.terminals.get(part.terminal_id)
                if known is not None:
                    shown.append(known)
        entry.terminals = tuple(shown)

    def _add(self, entry: Entry) -> int:
        at = len(self.entries)
        self.entries.append(entry)
        self.changed.add(at)
        return at

    def _change(self, at: int) -> None:
        entry = self.entries[at]
        entry.version += 1
        if isinstance(entry.content, ToolCall) and not entry.terminals:
            self._find_terminals(entry, at)
        self.changed.add(at)
