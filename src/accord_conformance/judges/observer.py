"""The observer: judges every message of a conversation, without I/O."""

from __future__ import annotations

import traceback

from msgspec import UNSET
from msgspec.structs import replace

from accord_conformance.judges import JUDGES
from accord_conformance.judges.base import Judge
from accord_conformance.reports.finding import Finding
from accord_conformance.reports.report import Report
from accord_conformance.traffic.connection_state import Talk
from accord_conformance.traffic.frame import Frame, Side, other
from accord_conformance.traffic.message import Broken, Call, Note, RawMessage, Reply, read

__all__ = ("OBSERVED", "Observer")

# The rules that some judge can tell of.
OBSERVED = frozenset(rule for judge in JUDGES for rule in judge.rules)


class Observer:
    """Watches one connection from its first frame to its last; `report` grows meanwhile.

    `only` is the side to be judged, if not both; `where` goes into what is found from now on.
    """

    def __init__(
        self, judges: tuple[type[Judge], ...] = JUDGES, *, only: Side | None = None
    ) -> None:
        self.talk = Talk()
        self.report = Report()
        self.only: Side | None = only
        self.where = ""
        self._found: list[Finding] = []
        self._judges = [judge(self.talk, self._found.append) for judge in judges]
        self._finished = False

    def receive(self, sender: Side, text: bytes, time: float = 0.0) -> list[Finding]:
        """Take a frame as its sender wrote it; return what it shows."""
        frame = Frame(len(self.talk.frames) + 1, time, sender, bytes(text))
        self.talk.frames.append(frame)
        match read(frame):
            case None:
                pass
            case Broken() as broken:
                self._each("broken", broken)
                self.talk.broken[sender] += 1
            case RawMessage() as raw:
                self._message(raw)
        return self._taken()

    def end(self, sender: Side) -> None:
        """One side will send nothing more: it closed its end, or its process is gone."""
        self.talk.ended.add(sender)

    def finish(self) -> Report:
        """Judge what only the end shows; return the report."""
        if not self._finished:
            self._finished = True
            self._each("finished")
            self._taken()
        self.report.version = self.talk.version
        self.report.frames = len(self.talk.frames)
        return self.report

    def _taken(self) -> list[Finding]:
        found = [
            replace(finding, where=self.where) if self.where else finding
            for finding in self._found
            if self.only in (None, finding.by)
        ]
        self._found.clear()
        for finding in found:
            self.report.add(finding)
        return found

    def _each(self, name: str, *arguments: object) -> None:
        """Let every judge look; a mistake of one is an error in the kit, and stops no other."""
        for judge in self._judges:
            try:
                getattr(judge, name)(*arguments)
            except Exception:  # noqa: BLE001  # whatever it is, the peer is not to blame
                self.report.add_fault(traceback.format_exc())

    def _message(self, raw: RawMessage) -> None:
        self._each("message", raw)
        fields, frame = raw.fields, raw.frame
        if raw.is_reply:
            self._reply(raw)
        elif "id" in fields:
            call = Call(
                frame,
                frame.sender,
                fields["id"],
                fields["method"],
                _params(fields),
                self.talk.version,
            )
            self._each("called", call)
            self.talk.called(call)
        else:
            note = Note(frame, frame.sender, fields["method"], _params(fields))
            self._each("noted", note)
            self.talk.noted(note)

    def _reply(self, raw: RawMessage) -> None:
        fields = raw.fields
        call = self.talk.find(other(raw.frame.sender), fields["id"]) if "id" in fields else None
        if call is None:
            self._each("stray", raw)
            return
        call.reply = Reply(raw.frame, fields.get("result", UNSET), fields.get("error"))
        self._each("answered", call)
        self.talk.answered(call)


def _params(fields: dict[str, object]) -> object:
    params = fields.get("params")
    return {} if params is None else params
