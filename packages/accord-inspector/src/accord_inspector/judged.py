"""The rules that the messages of a recording break, as another process finds them.

The process is `python -m accord_inspector.judged FILE` (`main`). It judges one connection at a time
by the rules of the protocol. Each line of stdin is the number of messages that may be judged now;
the empty line says that the recording has ended. Lines of stdout are `Progress`. `Judged` runs it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from array import array
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import BinaryIO, Final

import msgspec
from msgspec import UNSET, Struct

from accord.text.excerpt import one_line
from accord_conformance.judges.observer import Observer
from accord_conformance.reports.report import Finding
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Frame, Request, Side
from accord_trace.message_index import MessageIndex
from accord_trace.reading import TraceError, trace_files
from accord_trace.records import Record


class BrokenRule(Struct, frozen=True, kw_only=True):
    """A rule that message `n` breaks; `others` are the numbers of the other messages involved."""

    n: int
    rule: str
    severity: str  # error: a MUST of the protocol; warning: a SHOULD; advice: any other
    by: str
    expected: str
    got: str
    others: list[int] = []


# Messages that differ from the one before in a text only break no rule.

_CHUNK = b'_chunk"'
_TEXT = re.compile(rb'"text": ?"')
# A text without characters that rules are about: control characters, escapes, surrogates.
_PLAIN = re.compile(rb"(?:[ !#-\[\]-~]|[\xc3-\xdf][\x80-\xbf]|[\xe3-\xec][\x80-\xbf]{2})+\"").match
_ALIKE = 2  # messages that are judged before the next ones of their form are skipped

_Form = tuple[str, bytes, bytes]


class Repeats:
    """The form of the newest messages of a connection: all of a message except its text.

    In a stream of chunks, rules look at the form of a message, and at what came before. Two chunks
    of one form leave the judges in the same state, and so does the next one.
    """

    def __init__(self) -> None:
        self._form: _Form | None = None
        self._alike = 0  # messages of this form, one after the other, that break no rule

    def is_repeated(self, record: Record) -> bool:
        """Return whether a message, the next one of its connection, needs no judgement."""
        form = _form_of(record)
        if form is None or form != self._form:
            self._form, self._alike = form, 0
            return False
        return self._alike >= _ALIKE

    def judged(self, *, is_broken: bool) -> None:
        """Note what was found about the message that `is_repeated` was asked about."""
        self._alike = 0 if is_broken else self._alike + 1


def _form_of(record: Record) -> _Form | None:
    """Return all of a chunk except its text; None for other messages."""
    if record.type != "notification" or record.params is UNSET:
        return None
    frame = bytes(record.params) if record.raw is UNSET else record.frame
    found = _TEXT.search(frame)
    if found is None or _CHUNK not in frame:
        return None
    text = _PLAIN(frame, found.end())
    if text is None:
        return None
    return record.dir, frame[: found.end()], frame[text.end() :]


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


# The process that judges

_REPORT_S = 0.2
_REPORTED = 200  # broken rules in one line
_PART_BYTES = 4 * 1024 * 1024
_NICE = 10


class Progress(Struct, kw_only=True, omit_defaults=True):
    """How many messages were judged, and what was found since the last line."""

    judged: int
    broken: list[BrokenRule] = []
    is_finished: bool = False
    problem: str = ""


class _Worker:
    def __init__(self, path: Path, out: BinaryIO) -> None:
        self._index = MessageIndex(trace_files(path))
        self._connections = JudgedConnections()
        self._judged = 0
        self._broken: list[BrokenRule] = []
        self._out = out

    def judge(self, count: int) -> None:
        """Judge the messages up to a number, and report what is found."""
        due = perf_counter() + _REPORT_S
        while self._judged < count:
            while len(self._index) <= self._judged:
                if self._index.advance(_PART_BYTES) and len(self._index) <= self._judged:
                    self.report()
                    return  # the number was wrong
            number = self._judged
            self._broken += self._connections.add(number, self._index.record(number))
            self._judged += 1
            if perf_counter() >= due or len(self._broken) >= _REPORTED:
                self.report()
                due = perf_counter() + _REPORT_S
        self.report()

    def finish(self) -> None:
        self._broken += self._connections.finish()
        self.report(is_finished=True)

    def report(self, *, is_finished: bool = False) -> None:
        broken, self._broken = self._broken, []
        for at in range(0, len(broken) - _REPORTED, _REPORTED):
            self._write(Progress(judged=self._judged, broken=broken[at : at + _REPORTED]))
        last = broken[(len(broken) - 1) // _REPORTED * _REPORTED :] if broken else []
        self._write(Progress(judged=self._judged, broken=last, is_finished=is_finished))

    def _write(self, progress: Progress) -> None:
        self._out.write(msgspec.json.encode(progress) + b"\n")
        self._out.flush()


def main(path: str) -> None:
    """Judge a recording until stdin ends."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    out = sys.stdout.buffer
    with suppress(BrokenPipeError):  # the inspector has ended
        try:
            _work(_Worker(Path(path), out))
        except TraceError as error:
            out.write(msgspec.json.encode(Progress(judged=0, problem=str(error))) + b"\n")
            out.flush()


def _work(worker: _Worker) -> None:
    for line in sys.stdin.buffer:
        if line.strip():
            worker.judge(int(line))
        else:
            worker.finish()


_LINE_BYTES = 16 * 1024 * 1024
_MAX_MESSAGES = 50_000  # whose broken rules are kept; more are counted only
_MAX_OF_ONE = 20  # broken rules of one message that are kept
_SEVERITIES: Final[tuple[str, ...]] = ("error", "warning", "advice")

_decode = msgspec.json.Decoder(Progress).decode


class Judged:
    """The broken rules by message; `run` judges.

    `judged` is how many messages were judged, `is_finished` whether the end of the recording was,
    too. `problem` says why judging has stopped. `revision` changes with each finding.
    """

    def __init__(self) -> None:
        self.judged: int = 0
        self.is_finished: bool = False
        self.problem: str = ""
        self.revision: int = 0
        self.counts: Counter[str] = Counter()
        self._observers: list[Callable[[], None]] = []
        self._by_message: dict[int, list[BrokenRule]] = {}
        self._rows: dict[str, tuple[int, frozenset[int]]] = {}

    def observe(self, observer: Callable[[], None]) -> None:
        """Call this when more is known."""
        self._observers.append(observer)

    def broken(self, n: int) -> list[BrokenRule]:
        """Return the rules that a message breaks, the most severe first."""
        return self._by_message.get(n, [])

    def severity(self, n: int) -> str:
        """Return the worst severity of a message's broken rules; empty if it has none."""
        found = self._by_message.get(n)
        return found[0].severity if found else ""

    def numbers(self, rule: str) -> frozenset[int]:
        """Return the numbers of the messages that break a rule, or any one if it is `any`."""
        revision, rows = self._rows.get(rule, (-1, frozenset[int]()))
        if revision != self.revision:
            rows = frozenset(
                n
                for n, found in self._by_message.items()
                if rule == "any" or any(one.rule == rule for one in found)
            )
            self._rows[rule] = (self.revision, rows)
        return rows

    def take(self, progress: Progress) -> None:
        """Add what was found."""
        self.judged = max(self.judged, progress.judged)
        self.is_finished |= progress.is_finished
        self.problem = progress.problem
        for one in progress.broken:
            self.counts[one.rule] += 1
            found = self._by_message.get(one.n)
            if found is None:
                if len(self._by_message) >= _MAX_MESSAGES:
                    continue
                found = self._by_message[one.n] = []
            if len(found) < _MAX_OF_ONE:
                found.append(one)
                found.sort(key=lambda item: _SEVERITIES.index(item.severity))
        self.revision += bool(progress.broken)
        for observer in self._observers:
            observer()

    async def run(
        self,
        path: Path,
        count: Callable[[], int],
        is_complete: Callable[[], bool],
        grown: asyncio.Event,
    ) -> None:
        """Judge a recording, and what is added to it, until this is cancelled.

        `count` is the number of messages that it has now; `grown` is set when there are more, or
        the recording is complete.
        """
        command = (sys.executable, "-m", "accord_inspector.judged", str(path))
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES, start_new_session=True
            )
        except OSError as error:
            self.problem = f"Cannot start the process that judges the messages: {error}"
            return
        try:
            await self._feed(process, count, is_complete, grown)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            # The pipes are closed only when all of the output was read.
            await asyncio.shield(process.communicate())

    async def _feed(
        self,
        process: Process,
        count: Callable[[], int],
        is_complete: Callable[[], bool],
        grown: asyncio.Event,
    ) -> None:
        while not self.problem:
            grown.clear()
            wanted = count()
            if wanted > self.judged:
                await self._ask(process, b"%d\n" % wanted, wanted)
            elif is_complete() and not self.is_finished:
                await self._ask(process, b"\n", wanted)
            else:
                await grown.wait()

    async def _ask(self, process: Process, line: bytes, wanted: int) -> None:
        """Write a line to the process; read until it has judged as many messages, or finished."""
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line)
        is_end = not line.strip()
        while not self.problem and (self.judged < wanted or (is_end and not self.is_finished)):
            read = await stdout.readline()
            if not read:
                self.problem = "The process that judges the messages has ended"
                return
            self.take(_decode(read))


if __name__ == "__main__":
    main(sys.argv[1])
