"""What a run that died has left: journals become parts, and nothing is counted twice.

An attempt with effects outside its workspace is noted when it begins, and is not repeated: a note
without a row gets the row `lost`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

import msgspec

from accord_fleet.dataset.segments import (
    Journal,
    Key,
    Removed,
    Segment,
    list_segments,
    open_journal,
    open_part,
    read_journal,
    remove_rows,
    write_part,
)
from accord_fleet.storage import Storage
from accord_fleet.types import Failure, Result, Times, WorkItem

STARTS = "starts"
_WHY = (
    "It began, and the run ended without its result. It may have changed something outside its "
    "workspace: it is repeated only by `accord fleet resume --repeat-lost`"
)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that began."""

    task: str
    agent: str
    attempt: int
    started: float
    """Seconds since 1970."""
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What identifies the attempt in a dataset."""
        return self.task, self.agent, self.attempt

    def lost(self) -> Result:
        """Return the result of an attempt that left none."""
        return Result(
            task=self.task,
            agent=self.agent,
            attempt=self.attempt,
            status="lost",
            failure=Failure(where="engine", message=_WHY),
            times=Times(started=self.started),
            tags=self.tags,
        )


class Starts:
    """Writes notes; used by one thread at a time."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._journal: Journal | None = None

    def add(self, item: WorkItem) -> None:
        """Note that an attempt begins, and flush the note to the disk; raise `OSError`."""
        if self._journal is None:
            # There are no earlier notes: they were removed when the dataset was opened.
            self._journal = open_journal(self._storage, 1, STARTS)
        task, agent, attempt = item.key
        start = Start(
            task=task, agent=agent, attempt=attempt, started=time.time(), tags=item.task.tags
        )
        self._journal.commit([msgspec.json.encode(start) + b"\n"])
        self._journal.sync()

    def close(self) -> None:
        """Close the file; the notes stay."""
        journal, self._journal = self._journal, None
        if journal is not None:
            with suppress(OSError):  # a full disk: `add` has flushed each note
                journal.close()


def read_starts(storage: Storage) -> Iterator[Start]:
    """Yield the notes. The attempt of a line that is not complete had not begun."""
    decoder = msgspec.json.Decoder(Start)
    for name in storage.names(STARTS):
        for line in storage.read(f"{STARTS}/{name}").splitlines():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue


def remove_starts(storage: Storage) -> None:
    """Remove all notes: each of their attempts has a row, or may be repeated."""
    for name in storage.names(STARTS):
        storage.remove(f"{STARTS}/{name}")


class Recovered(msgspec.Struct, kw_only=True):
    """What was found when a dataset was opened for writing."""

    keys: set[Key] = set()
    """The attempts that have a row."""
    next_segment: int = 1
    from_journals: int = 0
    """Results that were only in journals: the run before did not end by itself."""
    torn: int = 0
    """Lines that were not complete. Their attempts have no row, and are run again."""
    twice: int = 0
    """Results of attempts that had a row; the first is kept."""
    cancelled: int = 0
    """Rows of cancelled attempts that were removed: the attempts are run again."""
    lost: int = 0
    """Attempts that began and left no result, or were cancelled in a turn. They may have changed
    something outside their workspace, and got the status `lost`."""
    repeated: int = 0
    """Lost attempts that are run again, as was asked for."""


def recover(storage: Storage, *, repeat_lost: bool = False) -> Recovered:
    """Fold what journals contain, remove cancelled attempts, and return the others.

    Attempts whose effects are not limited to their workspace are not repeated once they had a turn:
    they get rows with the status `lost`, unless `repeat_lost`, which removes rows of lost attempts.
    Every step leaves a dataset that can be read and recovered. Needs the lock.
    """
    found = Recovered()
    statuses = {"cancelled", "lost"} if repeat_lost else {"cancelled"}
    removed: list[Removed] = []
    for segment in list_segments(storage):
        found.next_segment = segment.number + 1
        if segment.part is None:
            removed += _fold(storage, segment, found, statuses)
        else:
            removed += remove_rows(storage, segment.part, statuses)
            found.keys.update(_keys(storage, segment.part))
        for name in segment.journals:
            storage.remove(name)
    _settle(storage, found, {row.key: row for row in removed}, repeat_lost=repeat_lost)
    return found


def _settle(
    storage: Storage, found: Recovered, removed: Mapping[Key, Removed], *, repeat_lost: bool
) -> None:
    """Give a row to each attempt that began, has none, and must not be repeated."""
    open_ = [start for start in read_starts(storage) if start.key not in found.keys]
    lost: dict[Key, Result] = {}
    if not repeat_lost:
        for start in open_:
            row = removed.get(start.key)
            if row is None or row.had_turn:
                lost[start.key] = start.lost()
    if lost:
        write_part(storage, found.next_segment, lost.values())
        found.next_segment += 1
        found.keys.update(lost)
    remove_starts(storage)
    found.lost = len(lost)
    found.cancelled = sum(
        row.status == "cancelled" and key not in lost for key, row in removed.items()
    )
    if repeat_lost:
        found.repeated = sum(row.status == "lost" for row in removed.values())
        found.repeated += len({start.key for start in open_} - removed.keys())


def _fold(
    storage: Storage, segment: Segment, found: Recovered, statuses: Set[str]
) -> list[Removed]:
    """Make a journal a part without the rows that have one of these statuses; return those."""
    journal = read_journal(storage, segment.journals)
    found.torn += journal.torn
    keep: dict[Key, Result] = {}
    removed: list[Removed] = []
    for result in journal.results:
        if result.status in statuses:
            removed.append(Removed(result.key, result.status, bool(result.times.turns_s)))
        elif result.key in keep or result.key in found.keys:
            found.twice += 1
        else:
            keep[result.key] = result
    write_part(storage, segment.number, keep.values())
    found.from_journals += len(keep)
    found.keys.update(keep)
    return removed


def _keys(storage: Storage, name: str) -> list[Key]:
    try:
        with open_part(storage, name) as part:
            columns: list[Any] = part.read(columns=["task", "agent", "attempt"]).columns
    except FileNotFoundError:
        return []  # all its rows were removed
    task, agent, attempt = (column.to_pylist() for column in columns)
    return list(zip(task, agent, attempt, strict=True))
