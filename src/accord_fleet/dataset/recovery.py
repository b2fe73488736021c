"""What a run that died has left: journals become parts, and nothing is counted twice."""

from __future__ import annotations

from typing import Any

import msgspec

from accord_fleet.dataset.segments import (
    Key,
    Segment,
    list_segments,
    open_part,
    read_journal,
    remove_rows,
    write_part,
)
from accord_fleet.dataset.storage import Storage
from accord_fleet.types.result import Result

__all__ = ("Recovered", "recover")


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


def recover(storage: Storage) -> Recovered:
    """Fold what journals contain, remove cancelled attempts, and return the others.

    Every step leaves a dataset that can be read and recovered. Needs the lock.
    """
    found = Recovered()
    for segment in list_segments(storage):
        found.next_segment = segment.number + 1
        if segment.part is None:
            _fold(storage, segment, found)
        else:
            found.cancelled += len(remove_rows(storage, segment.part, "cancelled"))
            found.keys.update(_keys(storage, segment.part))
        for name in segment.journals:
            storage.remove(name)
    return found


def _fold(storage: Storage, segment: Segment, found: Recovered) -> None:
    journal = read_journal(storage, segment.journals)
    found.torn += journal.torn
    keep: dict[Key, Result] = {}
    for result in journal.results:
        if result.status == "cancelled":
            found.cancelled += 1
        elif result.key in keep or result.key in found.keys:
            found.twice += 1
        else:
            keep[result.key] = result
    write_part(storage, segment.number, keep.values())
    found.from_journals += len(keep)
    found.keys.update(keep)


def _keys(storage: Storage, name: str) -> list[Key]:
    try:
        with open_part(storage, name) as part:
            columns: list[Any] = part.read(columns=["task", "agent", "attempt"]).columns
    except FileNotFoundError:
        return []  # all its rows were removed
    task, agent, attempt = (column.to_pylist() for column in columns)
    return list(zip(task, agent, attempt, strict=True))
