"""A conversation as it is shown again: every message, tool call and plan once, as it ended up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.updates import (
    CommandsReport,
    CompactionPart,
    CompactionReport,
    Ended,
    NoticeReport,
    OptionsReport,
    PlanGone,
    PlanLink,
    PlanReport,
    PlanText,
    Report,
    Said,
    SessionSaid,
    SubagentReport,
    TerminalEnded,
    TerminalOutput,
    TerminalStarted,
    TitleReport,
    ToolPart,
    ToolReport,
    UsageReport,
)
from accord.types.tool_calls import ToolContent

__all__ = ("Fold", "folded")

_ENDED = frozenset({"completed", "failed", "cancelled"})
_MOST_PIECES = 1024  # of a text before they are put together
_OUTPUT_BYTES = 256 * 1024  # of a terminal: its end


def folded(reports: Iterable[Report], *, running: bool = False) -> list[Report]:
    """Return fewer reports that show the same; what has not ended is cancelled, unless it runs.

    Each thing stands where it began. Options and commands are left out: they are told anew.
    """
    fold = Fold()
    for report in reports:
        fold.add(report)
    return list(fold.all(running=running))


class _Parts:
    """Content that grows: text that goes on is one text, however many pieces it came in."""

    def __init__(self) -> None:
        self._found: list[ToolContent] = []
        self._texts: list[str] = []  # that follow each other
        self._recent: list[str] = []  # as above, the last of them

    def add(self, part: ToolContent, *, goes_on: bool) -> None:
        if type(part) is not str:
            self._end_text()
            self._found.append(part)
            return
        if not goes_on:
            self._end_text()
        self._recent.append(part)
        if len(self._recent) == _MOST_PIECES:
            self._texts.append("".join(self._recent))
            self._recent.clear()

    def _end_text(self) -> None:
        if self._texts or self._recent:
            self._found.append("".join((*self._texts, *self._recent)))
            self._texts.clear()
            self._recent.clear()

    def all(self) -> tuple[ToolContent, ...]:
        """Return all of it."""
        self._end_text()
        return tuple(self._found)


class Fold:
    """What reports come to, while they are added; it takes as much memory as what it returns."""

    def __init__(self) -> None:
        # By what it is about, in the order of first appearance.
        self._kept: dict[tuple[str, ...], Report] = {}
        self._said: dict[tuple[str, ...], _Parts] = {}
        self._items: dict[str, _Parts] = {}
        self._outputs: dict[str, bytearray] = {}
        self._exits: dict[str, TerminalEnded] = {}

    def add(self, report: Report) -> None:
        """Take what happened next."""
        match report:
            case Said(role, message_id, content):
                key = "said", role, message_id
                self._kept.setdefault(key, Said(role, message_id, ()))
                for part in content:
                    # Of the user each piece is what it was, of others text goes on.
                    self._parts(key).add(part, goes_on=role != "user")
            case ToolReport(id=tool_id):
                self._add_tool(tool_id, report)
            case ToolPart(tool_id, content, goes_on):
                self._items.setdefault(tool_id, _Parts()).add(content, goes_on=goes_on)
            case PlanReport(id=plan_id) | PlanText(id=plan_id) | PlanLink(id=plan_id):
                self._kept["plan", plan_id] = report
            case PlanGone(plan_id):
                self._kept.pop(("plan", plan_id), None)
            case CompactionReport(id=compaction_id):
                self._add("compaction", compaction_id, report)
            case CompactionPart(compaction_id, content):
                key = "compaction", compaction_id
                self._kept.setdefault(key, CompactionReport(compaction_id, "in_progress"))
                self._parts(key).add(content, goes_on=True)
            case SubagentReport(id=child_id):
                self._add("subagent", child_id, report)
            case SessionSaid(id=message_id):
                self._kept["between", message_id] = report
            case TitleReport():
                self._kept["title",] = report
            case UsageReport():
                self._kept["usage",] = report
            case TerminalStarted(id=terminal_id):
                self._kept["terminal", terminal_id] = report
            case TerminalOutput(terminal_id, data):
                output = self._outputs.setdefault(terminal_id, bytearray())
                output += data
                del output[:-_OUTPUT_BYTES]
            case TerminalEnded(terminal_id, _, _):
                self._exits[terminal_id] = report
            case OptionsReport() | CommandsReport() | Ended() | NoticeReport():
                pass

    def _parts(self, key: tuple[str, ...]) -> _Parts:
        return self._said.setdefault(key, _Parts())

    def _add_tool(self, tool_id: str, report: ToolReport) -> None:
        if report.content is not UNSET:
            parts = self._items[tool_id] = _Parts()
            for item in report.content:
                parts.add(item, goes_on=False)
            report = replace(report, content=UNSET)
        self._add("tool", tool_id, report)

    def _add(
        self, kind: str, entity: str, report: ToolReport | CompactionReport | SubagentReport
    ) -> None:
        before = self._kept.get((kind, entity))
        if isinstance(before, ToolReport | CompactionReport | SubagentReport):
            changes = {
                name: value
                for name in report.__struct_fields__
                if (value := getattr(report, name)) is not UNSET
                and name not in ("begins", "content")
            }
            report = replace(before, **changes)
        self._kept[kind, entity] = report

    def all(self, *, running: bool) -> Iterator[Report]:
        """Return the fewest reports that show the same, each thing where it began."""
        for key, report in self._kept.items():
            match report:
                case Said(role, message_id, _):
                    yield Said(role, message_id, self._said[key].all())  # type: ignore[arg-type]  # of messages
                case ToolReport(id=tool_id, status=status):
                    items = self._items.get(tool_id)
                    yield replace(
                        report,
                        begins=True,
                        status=status if running or status in _ENDED else "cancelled",
                        cancellable=report.cancellable
                        if running and status not in _ENDED
                        else UNSET,
                        content=UNSET if items is None else items.all() or UNSET,
                    )
                case CompactionReport(status=status):
                    summary = self._said.get(key)
                    ended = running or status in _ENDED
                    yield replace(
                        report,
                        status=status if ended else "cancelled",
                        summary=UNSET if summary is None else summary.all() or UNSET,
                    )
                case SubagentReport(state=state) if state != "idle" and not running:
                    yield replace(report, state="idle", stop_reason="cancelled")
                case TerminalStarted(id=terminal_id):
                    ended = terminal_id in self._exits or not running
                    yield replace(report, cancellable=not ended and report.cancellable)
                    if output := self._outputs.get(terminal_id):
                        yield TerminalOutput(terminal_id, bytes(output))
                    if ended:
                        yield self._exits.get(terminal_id, TerminalEnded(terminal_id))
                case _:
                    yield report
