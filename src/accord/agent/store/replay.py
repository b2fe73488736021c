"""A conversation as it is shown again: every message, tool call and plan once, as it ended up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET
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

__all__ = ("Collapser", "collapse")

_ENDED = frozenset({"completed", "failed", "cancelled"})
_MAX_PIECES = 1024  # of a text before they are put together
_OUTPUT_BYTES = 256 * 1024  # of a terminal: its end


def collapse(reports: Iterable[Update], *, running: bool = False) -> list[Update]:
    """Return fewer reports that show the same; what has not ended is cancelled, unless it runs.

    Each thing stands where it began. Options and commands are left out: they are told anew.
    """
    fold = Collapser()
    for report in reports:
        fold.add(report)
    return list(fold.result(running=running))


class _ContentBuffer:
    """Content that grows: text that goes on is one text, however many pieces it came in."""

    def __init__(self) -> None:
        self._items: list[ToolContent] = []
        self._texts: list[str] = []  # that follow each other
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
        """Return all of it."""
        self._end_text()
        return tuple(self._items)


class Collapser:
    """What reports come to, while they are added; it takes as much memory as what it returns."""

    def __init__(self) -> None:
        # By what it is about, in the order of first appearance.
        self._updates: dict[tuple[str, ...], Update] = {}
        self._contents: dict[tuple[str, ...], _ContentBuffer] = {}
        self._items: dict[str, _ContentBuffer] = {}
        self._outputs: dict[str, bytearray] = {}
        self._exits: dict[str, TerminalExited] = {}

    def add(self, report: Update) -> None:
        """Take what happened next."""
        match report:
            case MessageUpdate(role, message_id, content):
                key = "said", role, message_id
                self._updates.setdefault(key, MessageUpdate(role, message_id, ()))
                for part in content:
                    # Of the user each piece is what it was, of others text goes on.
                    self._parts(key).add(part, continues=role != "user")
            case ToolCallUpdate(id=tool_id):
                self._add_tool(tool_id, report)
            case ToolContentUpdate(tool_id, content, continues):
                self._items.setdefault(tool_id, _ContentBuffer()).add(content, continues=continues)
            case (
                PlanUpdate(id=plan_id) | PlanMarkdownUpdate(id=plan_id) | PlanFileUpdate(id=plan_id)
            ):
                self._updates["plan", plan_id] = report
            case PlanRemoved(plan_id):
                self._updates.pop(("plan", plan_id), None)
            case CompactionUpdate(id=compaction_id):
                self._add("compaction", compaction_id, report)
            case CompactionSummaryUpdate(compaction_id, content):
                key = "compaction", compaction_id
                self._updates.setdefault(key, CompactionUpdate(compaction_id, "in_progress"))
                self._parts(key).add(content, continues=True)
            case SubagentUpdate(id=child_id):
                self._add("subagent", child_id, report)
            case SessionMessageUpdate(id=message_id):
                self._updates["between", message_id] = report
            case TitleUpdate():
                self._updates["title",] = report
            case ContextUsageUpdate():
                self._updates["usage",] = report
            case TerminalStarted(id=terminal_id):
                self._updates["terminal", terminal_id] = report
            case TerminalOutputUpdate(terminal_id, data):
                output = self._outputs.setdefault(terminal_id, bytearray())
                output += data
                del output[:-_OUTPUT_BYTES]
            case TerminalExited(terminal_id, _, _):
                self._exits[terminal_id] = report
            case OptionsUpdate() | CommandsUpdate() | TurnEnded() | NoticeUpdate():
                pass

    def _parts(self, key: tuple[str, ...]) -> _ContentBuffer:
        return self._contents.setdefault(key, _ContentBuffer())

    def _add_tool(self, tool_id: str, report: ToolCallUpdate) -> None:
        if report.content is not UNSET:
            parts = self._items[tool_id] = _ContentBuffer()
            for item in report.content:
                parts.add(item, continues=False)
            report = replace(report, content=UNSET)
        self._add("tool", tool_id, report)

    def _add(
        self, kind: str, entity: str, report: ToolCallUpdate | CompactionUpdate | SubagentUpdate
    ) -> None:
        before = self._updates.get((kind, entity))
        if isinstance(before, ToolCallUpdate | CompactionUpdate | SubagentUpdate):
            changes = {
                name: value
                for name in report.__struct_fields__
                if (value := getattr(report, name)) is not UNSET
                and name not in ("is_new", "content")
            }
            report = replace(before, **changes)
        self._updates[kind, entity] = report

    def result(self, *, running: bool) -> Iterator[Update]:
        """Return the fewest reports that show the same, each thing where it began."""
        for key, report in self._updates.items():
            match report:
                case MessageUpdate(role, message_id, _):
                    yield MessageUpdate(role, message_id, self._contents[key].result())  # type: ignore[arg-type]  # of messages
                case ToolCallUpdate(id=tool_id, status=status):
                    items = self._items.get(tool_id)
                    yield replace(
                        report,
                        is_new=True,
                        status=status if running or status in _ENDED else "cancelled",
                        cancellable=report.cancellable
                        if running and status not in _ENDED
                        else UNSET,
                        content=UNSET if items is None else items.result() or UNSET,
                    )
                case CompactionUpdate(status=status):
                    summary = self._contents.get(key)
                    ended = running or status in _ENDED
                    yield replace(
                        report,
                        status=status if ended else "cancelled",
                        summary=UNSET if summary is None else summary.result() or UNSET,
                    )
                case SubagentUpdate(state=state) if state != "idle" and not running:
                    yield replace(report, state="idle", stop_reason="cancelled")
                case TerminalStarted(id=terminal_id):
                    ended = terminal_id in self._exits or not running
                    yield replace(report, cancellable=not ended and report.cancellable)
                    if output := self._outputs.get(terminal_id):
                        yield TerminalOutputUpdate(terminal_id, bytes(output))
                    if ended:
                        yield self._exits.get(terminal_id, TerminalExited(terminal_id))
                case _:
                    yield report
