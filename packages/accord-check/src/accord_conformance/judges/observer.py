"""The observer: judges every message of a conversation, without I/O."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from accord_conformance.judges import all_judges
from accord_conformance.judges.base import Judge
from accord_conformance.reports.report import Finding, Report
from accord_conformance.traffic import recording
from accord_conformance.traffic.connection_state import ConnectionState
from accord_conformance.traffic.message import (
    Frame,
    InvalidFrame,
    Notification,
    RawMessage,
    Request,
    Response,
    Side,
    other,
    parse_frame,
)

# The methods of judges for what they observe.
_EVENTS = [name for name in vars(Judge) if name.startswith("on_")]


def _overridden(name: str, judges: Iterable[Judge]) -> list[Callable[..., None]]:
    """Return a method of the judges that do something in it."""
    return [
        getattr(judge, name)
        for judge in judges
        if getattr(type(judge), name) is not getattr(Judge, name)
    ]


def observed_rules() -> frozenset[str]:
    """Return the rules that judges report."""
    return frozenset(rule for judge in all_judges() for rule in judge.judged_rules())


class Observer:
    """Observes one connection; `report` has the findings so far.

    `where` is added to later findings.
    """

    def __init__(
        self, judges: tuple[type[Judge], ...] | None = None, *, only: Side | None = None
    ) -> None:
        self.state = ConnectionState()
        self.report = Report()
        self.only = only
        self.where = ""
        self._findings: list[Finding] = []
        made = [judge(self.state, self._findings.append) for judge in judges or all_judges()]
        self._handlers = {name: _overridden(name, made) for name in _EVENTS}
        self._finished = False

    @property
    def only(self) -> Side | None:
        """The judged side, if not both."""
        return self.state.judged_side

    @only.setter
    def only(self, side: Side | None) -> None:
        self.state.judged_side = side

    def receive(self, sender: Side, text: bytes, time: float = 0.0) -> list[Finding]:
        """Judge a frame, as its sender wrote it; return the findings."""
        frame = Frame(len(self.state.frames) + 1, time, sender, bytes(text))
        self.state.frames.append(frame)
        match parse_frame(frame):
            case None:
                pass
            case InvalidFrame() as broken:
                self._notify_judges("on_invalid_frame", broken)
                self.state.invalid_frame_counts[sender] += 1
            case RawMessage() as raw:
                self._on_message(raw)
        return self._take_findings()

    def end(self, sender: Side) -> None:
        """Record that a side will not send anything else."""
        self.state.ended_sides.add(sender)

    def finish(self) -> Report:
        """Judge what only the end shows; return the report."""
        if not self._finished:
            self._finished = True
            self._notify_judges("on_end")
            self._take_findings()
        self.report.version = self.state.version
        self.report.frames = len(self.state.frames)
        return self.report

    def _take_findings(self) -> list[Finding]:
        found = [
            replace(finding, where=self.where) if self.where else finding
            for finding in self._findings
            if self.only in (None, finding.by)
        ]
        self._findings.clear()
        for finding in found:
            self.report.add(finding)
        return found

    def _notify_judges(self, name: str, *arguments: object) -> None:
        """Call a method of every judge; an exception is recorded as an error in the kit."""
        for handle in self._handlers[name]:
            try:
                handle(*arguments)
            except Exception:  # noqa: BLE001  # not the fault of the peer
                self.report.add_kit_error(traceback.format_exc())

    def _on_message(self, raw: RawMessage) -> None:
        self._notify_judges("on_message", raw)
        fields, frame = raw.fields, raw.frame
        if raw.is_response:
            self._on_response(raw)
        elif "id" in fields:
            call = Request(
                frame,
                frame.sender,
                fields["id"],
                fields["method"],
                _params(fields),
                self.state.version,
            )
            self._notify_judges("on_request", call)
            self.state.on_request(call)
        else:
            note = Notification(frame, frame.sender, fields["method"], _params(fields))
            self._notify_judges("on_notification", note)
            self.state.on_notification(note)

    def _on_response(self, raw: RawMessage) -> None:
        fields = raw.fields
        call = (
            self.state.find_request(other(raw.frame.sender), fields["id"])
            if "id" in fields
            else None
        )
        if call is None:
            self._notify_judges("on_unmatched_response", raw)
            return
        call.response = Response(raw.frame, fields.get("result", UNSET), fields.get("error"))
        self._notify_judges("on_response", call)
        self.state.on_response(call)


def judge_recording(
    lines: Iterable[bytes],
    *,
    judged: Side | Literal["both"] | None = None,
    unread: list[str] | None = None,
) -> Observer:
    """Return an observer that has seen all frames of a recording; `finish` is not called yet.

    Without `judged`, the subject of the recording is judged, or both sides. `unread` is that of
    `recording.read`. Raise `ValueError` if it is not a recording, or if the directions of most
    messages are swapped.
    """
    observer = Observer(only=None if judged == "both" else judged)
    for item in recording.read(lines, unread):
        match item:
            case recording.Recorded(time, sender, text):
                observer.receive(sender, text, time)
            case recording.End(sender):
                observer.end(sender)
            case recording.JudgedSide(side):
                if judged is None:
                    observer.only = side
    return observer


def _params(fields: dict[str, object]) -> object:
    params = fields.get("params")
    return {} if params is None else params
