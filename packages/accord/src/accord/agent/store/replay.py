"""Collapses stored updates for a replay: each message, tool call and plan once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace

from accord.agent.updates import (
    CommandsUpdate,
    CompactionSummaryUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    SessionMessageUpdate,
    SubagentUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    Update,
)
from accord.types.tool_calls import ToolContent

_ENDED = frozenset({"completed", "failed", "cancelled"})
_MAX_PIECES = 1024  # of a text before they are joined
_OUTPUT_BYTES = 256 * 1024  # of a terminal: its end


def collapse(updates: Iterable[Update], *, running: bool = False) -> list[Update]:
    """Return fewer updates with the same result.

    Each entity is at the position of its first update. Unless `running`, an entity that has not
    ended is cancelled. Options and commands are omitted, as they are sent when a session is
    opened.
    """
    fold = Collapser()
    for update in updates:
        fold.add(update)
    return list(fold.result(running=running))


class _Pieces:
    """Content that is appended to; consecutive text is joined."""

    __slots__ = ("_items", "_recent", "_texts")

    def __init__(self) -> None:
        self._items: list[ToolContent] = []
        self._texts: list[str] = []  # consecutive
        self._recent: list[str] = []  # as above, the last of them

    def add(self, part: ToolContent, *, continues: bool) -> None:
        if type(part) is not str:
            self._end_text()
            self._items.append(part)
            return
        if not continues:
            self._end_text()
        self._recent.append(part)
        if len(self._recent) == _MAX_PIECES:
            self._texts.append("".join(self._recent))
            self._recent.clear()

    def _end_text(self) -> None:
        if self._texts or self._recent:
            self._items.append("".join((*self._texts, *self._recent)))
            self._texts.clear()
            self._recent.clear()

    def result(self) -> tuple[ToolContent, ...]:
        self._end_text()
        return tuple(self._items)


class _ContentBuffer(Struct, gc=False):
    """The content of one entity.

    Most have one text, and a session can have 100,000: with lists for each, the garbage collector
    would stop all sessions for a long time.
    """

    text: str | None = None  # the only piece
    pieces: _Pieces | None = None  # all content, if there is more

    def add(self, part: ToolContent, *, continues: bool) -> None:
        if self.pieces is None:
            if self.text is None and type(part) is str:
                self.text = part
                return
            self.pieces = _Pieces()
            if self.text is not None:
                self.pieces.add(self.text, continues=False)
        self.pieces.add(part, continues=continues)

    def result(self) -> tuple[ToolContent, ...]:
        """Return the content."""
        if self.pieces is not None:
            return self.pieces.result()
        return () if self.text is None else (self.text,)


class Collapser:
    """Collapses updates as they are added; takes no more memory than its result."""

    def __init__(self) -> None:
        # By entity, in the order of the first update.
        self._updates: dict[tuple[str, ...], Update] = {}
        self._contents: dict[tuple[str, ...], _ContentBuffer] = {}
        self._items: dict[str, _ContentBuffer] = {}
        self._outputs: dict[str, bytearray] = {}
        self._exits: dict[str, TerminalExited] = {}

    def add(self, update: Update) -> None:
        """Add the next update."""
        match update:
            case MessageUpdate(role, message_id, content):
                key = "said", role, message_id
                self._updates.setdefault(key, MessageUpdate(role, message_id, ()))
                for part in content:
                    # The user's content keeps its blocks; text of the agent is joined.
                    self._parts(key).add(part, continues=role != "user")
            case ToolCallUpdate(id=tool_id):
                self._add_tool(tool_id, update)
            case ToolContentUpdate(tool_id, content, continues):
                self._items.setdefault(tool_id, _ContentBuffer()).add(content, continues=continues)
            case (
                PlanUpdate(id=plan_id) | PlanMarkdownUpdate(id=plan_id) | PlanFileUpdate(id=plan_id)
            ):
                self._updates["plan", plan_id] = update
            case PlanRemoved(plan_id):
                self._updates.pop(("plan", plan_id), None)
            case CompactionUpdate(id=compaction_id):
                self._add("compaction", compaction_id, update)
            case CompactionSummaryUpdate(compaction_id, content):
                key = "compaction", compaction_id
                self._updates.setdefault(key, CompactionUpdate(compaction_id, "in_progress"))
                self._parts(key).add(content, continues=True)
            case SubagentUpdate(id=child_id):
                self._add("subagent", child_id, update)
            case SessionMessageUpdate(id=message_id):
                self._updates["between", message_id] = update
            case TitleUpdate():
                self._updates["title",] = update
            case ContextUsageUpdate():
                self._updates["usage",] = update
            case TerminalStarted(id=terminal_id):
                self._updates["terminal", terminal_id] = update
            case TerminalOutputUpdate(terminal_id, data):
                output = self._outputs.setdefault(terminal_id, bytearray())
                output += data
                del output[:-_OUTPUT_BYTES]
            case TerminalExited(terminal_id, _, _):
                self._exits[terminal_id] = update
            case OptionsUpdate() | CommandsUpdate() | TurnEnded() | NoticeUpdate():
                pass

    def _parts(self, key: tuple[str, ...]) -> _ContentBuffer:
        return self._contents.setdefault(key, _ContentBuffer())

    def _add_tool(self, tool_id: str, update: ToolCallUpdate) -> None:
        if update.content is not UNSET:
            parts = self._items[tool_id] = _ContentBuffer()
            for item in update.content:
                parts.add(item, continues=False)
            update = replace(update, content=UNSET)
        self._add("tool", tool_id, update)

    def _add(
        self, kind: str, entity: str, update: ToolCallUpdate | CompactionUpdate | SubagentUpdate
    ) -> None:
        before = self._updates.get((kind, entity))
        if isinstance(before, ToolCallUpdate | CompactionUpdate | SubagentUpdate):
            changes = {
                name: value
                for name in update.__struct_fields__
                if (value := getattr(update, name)) is not UNSET
                and name not in ("is_new", "content")
            }
            update = replace(before, **changes)
        self._updates[kind, entity] = update

    def free(self, count: int) -> bool:
        """Forget some entities; return whether more are left. All at once takes long."""
        for held in (self._updates, self._contents, self._items):
            for _ in range(min(count, len(held))):
                held.popitem()
        return bool(self._updates or self._contents or self._items)

    def result(self, *, running: bool) -> Iterator[Update]:
        """Return the collapsed updates; see `collapse`."""
        for key, update in self._updates.items():
            match update:
                case MessageUpdate(role, message_id, _):
                    yield MessageUpdate(role, message_id, self._contents[key].result())  # type: ignore[arg-type]  # of messages
                case ToolCallUpdate(id=tool_id, status=status):
                    items = self._items.get(tool_id)
                    yield replace(
                        update,
                        is_new=True,
                        status=status if running or status in _ENDED else "cancelled",
                        cancellable=update.cancellable
                        if running and status not in _ENDED
                        else UNSET,
                        content=UNSET if items is None else items.result() or UNSET,
                    )
                case CompactionUpdate(status=status):
                    summary = self._contents.get(key)
                    ended = running or status in _ENDED
                    yield replace(
                        update,
                        status=status if ended else "cancelled",
                        summary=UNSET if summary is None else summary.result() or UNSET,
                    )
                case SubagentUpdate(state=state) if state != "idle" and not running:
                    yield replace(update, state="idle", stop_reason="cancelled")
                case TerminalStarted(id=terminal_id):
                    ended = terminal_id in self._exits or not running
                    yield replace(update, cancellable=not ended and update.cancellable)
                    if output := self._outputs.get(terminal_id):
                        yield TerminalOutputUpdate(terminal_id, bytes(output))
                    if ended:
                        yield self._exits.get(terminal_id, TerminalExited(terminal_id))
                case _:
                    yield update
