"""The plan and the tasks of a run, as they are stored, and what differs in tasks given again."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import msgspec

from accord_fleet.dataset.segments import list_segments
from accord_fleet.plan import Plan
from accord_fleet.storage import DatasetError, Storage, TasksChanged
from accord_fleet.types import Task

_MOST_SHOWN = 5


def describe_changes(stored: Iterable[Task], given: Iterable[Task]) -> str | None:
    """Return which tasks were added, removed or changed, at most five of each, or None.

    The order of the tasks does not matter. Tasks are read one at a time.
    """
    before = {task.id: _digests(task) for task in stored}
    added: list[str] = []
    changed: list[str] = []
    for task in given:
        old = before.pop(task.id, None)
        new = _digests(task)
        if old is None:
            added.append(task.id)
        elif old != new:
            fields = Task.__struct_fields__
            names = [name for name, a, b in zip(fields, old, new, strict=True) if a != b]
            changed.append(f"{task.id} ({', '.join(names)})")
    parts = [
        f"{len(names)} {what}: {', '.join(names[:_MOST_SHOWN])}{' …' * (len(names) > _MOST_SHOWN)}"
        for what, names in (("changed", changed), ("added", added), ("removed", list(before)))
        if names
    ]
    return "; ".join(parts) or None


def _digests(task: Task) -> tuple[bytes, ...]:
    """Return a short digest of each field."""
    return tuple(
        hashlib.blake2b(
            msgspec.json.encode(getattr(task, name), order="deterministic"), digest_size=6
        ).digest()
        for name in Task.__struct_fields__
    )


RUN = "run.json"
TASKS = "tasks.jsonl"
_PIECE = 2**20
_VERSION = 1
_RESTORE = "restore it from a copy, or begin a new run"


class CountedTasks(NamedTuple):
    """What a plan has of its tasks."""

    number: int
    digest: str
    """SHA-256 of the lines of the tasks."""


def count_tasks(tasks: Iterable[Task]) -> CountedTasks:
    """Return the number and the digest of tasks for a `Plan`."""
    digest = hashlib.sha256()
    number = 0
    for task in tasks:
        digest.update(_line(task))
        number += 1
    return CountedTasks(number, digest.hexdigest())


def write_run(storage: Storage, plan: Plan, tasks: Iterable[Task]) -> None:
    """Store tasks and then the plan.

    Raises `DatasetError` if the dataset exists, and `TasksChanged` if the plan has another digest.
    """
    try:
        storage.read(RUN)
    except FileNotFoundError:
        pass
    else:
        raise DatasetError(_why_not_begun(storage, tasks))
    if list_segments(storage):
        raise DatasetError(f"{storage.address} has results, but {RUN} is missing")
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        piece = bytearray()
        for task in tasks:
            piece += _line(task)
            if len(piece) >= _PIECE:
                digest.update(piece)
                yield bytes(piece)
                piece.clear()
        digest.update(piece)
        yield bytes(piece)

    storage.write_pieces(TASKS, pieces())
    if digest.hexdigest() != plan.digest:
        raise TasksChanged(f"{storage.address}: the digest of the plan is not that of the tasks")
    write_plan(storage, plan)


def write_plan(storage: Storage, plan: Plan) -> None:
    """Store a plan instead of the stored one; the tasks stay."""
    storage.write(RUN, msgspec.json.format(msgspec.json.encode(plan)))


def _why_not_begun(storage: Storage, tasks: Iterable[Task]) -> str:
    changes = describe_changes(read_tasks(storage), tasks)
    if changes is None:
        return (
            f"{storage.address} already has a run of these tasks: continue it with "
            "`accord fleet resume`, or choose another address"
        )
    return f"{storage.address} already has a run of other tasks ({changes}): choose another address"


def read_plan(storage: Storage) -> Plan:
    """Return the plan; raise `DatasetError` if it is missing or invalid."""
    try:
        plan = msgspec.json.decode(storage.read(RUN), type=Plan)
    except FileNotFoundError:
        is_there = storage.folder is None or storage.folder.exists()
        why = f"is not a dataset: {RUN} is missing" if is_there else "does not exist"
        raise DatasetError(f"{storage.address} {why}; name the folder of a run") from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"{storage.address}: {RUN} cannot be read: {error}; restore it from a copy, or begin a "
            "new run"
        ) from error
    if plan.version > _VERSION:
        raise DatasetError(
            f"{storage.address}: {RUN} has version {plan.version}, and this version of Accord "
            f"reads versions up to {_VERSION}"
        )
    return plan


def read_tasks(storage: Storage) -> Iterator[Task]:
    """Yield the tasks; raise `DatasetError` for a line that is not a task."""
    decoder = msgspec.json.Decoder(Task)
    with _opened_tasks(storage) as file:
        for number, line in enumerate(file, 1):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise DatasetError(
                    f"{storage.address}: line {number} of {TASKS}: {error}; {_RESTORE}"
                ) from error


@contextmanager
def _opened_tasks(storage: Storage) -> Generator[BinaryIO]:
    try:
        file = storage.open(TASKS)
    except OSError as error:
        why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise DatasetError(f"{storage.address}: {TASKS} {why}; {_RESTORE}") from error
    with file:
        yield file


def check_tasks(storage: Storage, plan: Plan) -> None:
    """Raise `TasksChanged` if the stored tasks were changed after the run began."""
    digest = hashlib.sha256()
    with _opened_tasks(storage) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != plan.digest:
        raise TasksChanged(
            f"{storage.address}: {TASKS} was changed after the run began "
            f"(SHA-256 {digest.hexdigest()[:12]}, expected {plan.digest[:12]}): "
            "restore it, or begin a new run"
        )


def check_same_tasks(storage: Storage, stored: Plan, plan: Plan) -> None:
    """Raise `TasksChanged` if a plan has other tasks than the stored plan."""
    if plan.digest != stored.digest:
        raise TasksChanged(
            f"{storage.address} has the results of {stored.tasks} other tasks "
            f"(SHA-256 {stored.digest[:12]}) than these {plan.tasks} ({plan.digest[:12]}): "
            "begin a new run with another address"
        )


def _line(task: Task) -> bytes:
    return msgspec.json.encode(task) + b"\n"
