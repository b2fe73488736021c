"""The rules that the messages of a recording break, as they are found by another process."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from accord_inspector.broken_rule import BrokenRule
from accord_inspector.judged_worker import Progress

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
        command = (sys.executable, "-m", "accord_inspector.judged_worker", str(path))
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
