"""Judges the messages of a recording by the rules of the protocol, one connection at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from accord.text.excerpt import one_line
from accord_conformance.judges.observer import Observer
from accord_conformance.reports.report import Finding
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Frame, Request, Side
from accord_inspector.broken_rule import BrokenRule
from accord_inspector.judged_repeats import Repeats
from accord_trace.records import Record

_MAX_CONNECTIONS = 1000


class JudgedConnections:
    """Judges what a client and an agent send; connections to proxies are not judged.

    Frames are not kept, so a million messages need little memory.
    """

    def __init__(self) -> None:
        self._connections: dict[str, _Connection | None] = {}  # None: not judged

    def add(self, n: int, record: Record) -> list[BrokenRule]:
        """Judge message `n`; return the rules that are known to be broken from now on."""
        if not {"Client", "Agent"} & {record.sender, record.receiver}:
            return []
        if record.conn in self._connections:
            connection = self._connections[record.conn]
        else:
            if len(self._connections) >= _MAX_CONNECTIONS:
                return []
            is_proxys = isinstance(record.method, str) and record.method.startswith("proxy/")
            connection = None if is_proxys else _Connection()
            self._connections[record.conn] = connection
        return [] if connection is None else connection.add(n, record)

    def finish(self) -> list[BrokenRule]:
        """Judge what only the end of a recording shows."""
        return [broken for one in self._connections.values() if one for broken in one.finish()]


class _First(list[Frame]):
    """A list that keeps its first frame, and counts the others."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __len__(self) -> int:
        return self.total

    def append(self, item: Frame) -> None:
        if not self.total:
            super().append(item)
        self.total += 1


class _FirstRequest(list[Request]):
    """A list that keeps its first request only."""

    def append(self, item: Request) -> None:
        if not self:
            super().append(item)


class _Connection:
    def __init__(self) -> None:
        self._observer = Observer()
        self._observer.state.frames = _First()
        self._observer.state.requests = _FirstRequest()
        self._numbers = array("I")  # by the number of the frame - 1
        self._repeats = Repeats()
        self._is_finished = False

    @property
    def version(self) -> int | None:
        return self._observer.state.version

    def add(self, n: int, record: Record) -> list[BrokenRule]:
        sender: Side = "client" if record.dir == "to_agent" else "agent"
        if record.type == "end":
            self._observer.end(sender)
            return []
        if self._repeats.is_repeated(record):
            return []
        self._numbers.append(n)
        findings = self._observer.receive(sender, record.frame, record.ts)
        broken = list(self._broken(findings, n))
        self._repeats.judged(is_broken=bool(broken))
        return broken

    def finish(self) -> list[BrokenRule]:
        if self._is_finished or not self._numbers:
            return []
        self._is_finished = True
        before = {id(finding) for finding in self._observer.report.failures()}
        found = self._observer.finish().failures()
        new = (finding for finding in found if id(finding) not in before)
        return list(self._broken(new, self._numbers[-1]))

    def _broken(self, findings: Iterable[Finding], last: int) -> Iterator[BrokenRule]:
        for finding in findings:
            if finding.passed:
                continue
            frames = finding.frames
            own = [frame for frame in frames if frame.sender == finding.by] or list(frames)
            n = self._numbers[own[-1].number - 1] if own else last
            others = (self._numbers[frame.number - 1] for frame in frames)
            yield BrokenRule(
                n=n,
                rule=finding.rule,
                severity=_severity(finding, self.version),
                by=finding.by,
                expected=one_line(finding.expected),
                got=one_line(finding.got),
                others=[other for other in others if other != n],
            )


def _severity(finding: Finding, version: int | None) -> str:
    rule = requirements()[finding.rule]
    authority = finding.authority or rule.authority_in(version)
    if authority not in ("schema", "text"):
        return "advice"
    return "error" if rule.is_must else "warning" if rule.is_should else "advice"
