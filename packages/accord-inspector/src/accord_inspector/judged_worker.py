"""Judges a recording in a process of its own: `python -m accord_inspector.judged_worker FILE`.

Each line of stdin is the number of messages that may be judged now; the empty line says that the
recording has ended. Lines of stdout are `Progress`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import BinaryIO

import msgspec
from msgspec import Struct

from accord_inspector.broken_rule import BrokenRule
from accord_inspector.judged_messages import JudgedConnections
from accord_trace.message_index import MessageIndex
from accord_trace.reading import TraceError, trace_files

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


if __name__ == "__main__":
    main(sys.argv[1])
