"""Notes that attempts began whose effects are not limited to their workspace.

Such an attempt is not repeated after the driver was killed: its note has no row, and gets one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from accord_fleet.dataset.journal import Journal, open_journal
from accord_fleet.dataset.segments import Key
from accord_fleet.dataset.storage import Storage
from accord_fleet.types.result import Failure, Result, Times
from accord_fleet.types.task import WorkItem

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
