"""A conversation as it is shown again: every message, tool call and plan once, as it ended up."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.reports import (
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
from accord.model.content import Content
from accord.model.tools import ToolContent

__all__ = ("folded",)

_ENDED = frozenset({"completed", "failed", "cancelled"})
_OUTPUT_BYTES = 256 * 1024  # of a terminal: its end


def folded(reports: Iterable[Report], *, running: bool = False) -> list[Report]:
    """Return fewer reports that show the same; what has not ended is cancelled, unless it runs.

    Each thing stands where it began. Options and commands are left out: they are told anew.
    """
    fold = _Fold()
    for report in reports:
        fold.add(report)
    return fold.all(running=running)


class _Fold:
    def __init__(self) -> None:
        # By what it is about, in the order of first appearance.
        self._kept: dict[tuple[str, ...], Report] = {}
        self._said: dict[tuple[str, ...], list[Content]] = {}
        self._items: dict[str, list[tuple[ToolContent, bool]]] = {}
        self._outputs: dict[str, bytearray] = {}
        self._exits: dict[str, TerminalEnded] = {}

    def add(self, report: Report) -> None:
        match report:
            case Said(role, message_id, content):
                key = "said", role, message_id
                self._kept.setdefault(key, report)
                self._said.setdefault(key, []).extend(content)
            case ToolReport(id=tool_id):
                self._add_tool(tool_id, report)
            case ToolPart(tool_id, content, goes_on):
                self._items.setdefault(tool_id, []).append((content, goes_on))
            case PlanReport(id=plan_id) | PlanText(id=plan_id) | PlanLink(id=plan_id):
                self._kept["plan", plan_id] = report
            case PlanGone(plan_id):
                self._kept.pop(("plan", plan_id), None)
            case CompactionReport(id=compaction_id):
                self._add("compaction", compaction_id, report)
            case CompactionPart(compaction_id, content):
                key = "compaction", compaction_id
                self._kept.setdefault(key, CompactionReport(compaction_id, "in_progress"))
                self._said.setdefault(key, []).append(content)
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

    def _add_tool(self, tool_id: str, report: ToolReport) -> None:
        if report.content is not UNSET:
            self._items[tool_id] = [(item, False) for item in report.content]
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

    def all(self, *, running: bool) -> list[Report]:
        found: list[Report] = []
        for key, report in self._kept.items():
            match report:
                case Said("user", message_id, _):
                    found.append(Said("user", message_id, tuple(self._said[key])))
                case Said(role, message_id, _):
                    content = _joined((part, True) for part in self._said[key])
                    found.append(Said(role, message_id, content))  # type: ignore[arg-type]  # of messages
                case ToolReport(id=tool_id, status=status):
                    found.append(
                        replace(
                            report,
                            begins=True,
                            status=status if running or status in _ENDED else "cancelled",
                            cancellable=report.cancellable
                            if running and status not in _ENDED
                            else UNSET,
                            content=_joined(self._items.get(tool_id, ())) or UNSET,
                        )
                    )
                case CompactionReport(status=status):
                    summary = _joined((part, True) for part in self._said.get(key, ()))
                    ended = running or status in _ENDED
                    found.append(
                        replace(
                            report,
                            status=status if ended else "cancelled",
                            summary=summary or UNSET,
                        )
                    )
                case SubagentReport(state=state) if state != "idle" and not running:
                    found.append(replace(report, state="idle", stop_reason="cancelled"))
                case TerminalStarted(id=terminal_id):
                    ended = terminal_id in self._exits or not running
                    found.append(replace(report, cancellable=not ended and report.cancellable))
                    if output := self._outputs.get(terminal_id):
                        found.append(TerminalOutput(terminal_id, bytes(output)))
                    if ended:
                        found.append(self._exits.get(terminal_id, TerminalEnded(terminal_id)))
                case _:
                    found.append(report)
        return found


def _joined(parts: Iterable[tuple[ToolContent, bool]]) -> tuple[ToolContent, ...]:
    """Return the parts with text that goes on in the text before it."""
    found: list[ToolContent] = []
    texts: list[str] = []
    for part, goes_on in parts:
        if isinstance(part, str):
            if texts and not goes_on:
                found.append("".join(texts))
                texts.clear()
            texts.append(part)
            continue
        if texts:
            found.append("".join(texts))
            texts.clear()
        found.append(part)
    if texts:
        found.append("".join(texts))
    return tuple(found)
